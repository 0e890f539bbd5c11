// Package stream reads and writes pipes and sockets that do not block, cheaply: the
// three programs pass many small messages, and a read or a write of one should not cost
// more than the message.
//
// It is about descriptors only and knows nothing of what goes through them. Deadlines
// set on a connection hold.
package stream

// Package native speaks Native Messaging with the browser: frames of a 4-byte
// native-endian length and JSON, and the chunks that carry a message which one
// frame cannot.
//
// It knows nothing of what messages mean and never opens one, but for chunks.
//
// Invariants: no more is allocated than has arrived, and never more than
// wire.MaxMessage for a message; every frame to the browser is within
// wire.MaxToExtension; once Claim has returned nothing but a frame can reach the
// browser, whoever prints.
package native

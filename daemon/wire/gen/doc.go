// Command gen writes what follows from package wire and would drift if a person
// kept it: the extension's validators (extension/gen/wire.js), its types
// (extension/gen/wire.d.ts) and the tables of docs/PROTOCOL.md.
//
//	go run ./daemon/wire/gen          write the three files
//	go run ./daemon/wire/gen -check   exit 1 if one of them is stale
//
// Shapes come by reflection from wire.Messages, so that they are those that
// encoding/json uses; sentences and limits come from the source, because neither
// is there at run time. Whatever it cannot express (a map with integer keys, two
// types of one name) stops it: a validator that guesses is worse than none.
//
// It decides nothing about the protocol. To change a message, change package wire
// and run it again.
package main

// Package packed keeps the signed packages of an installation's extension: for each
// build one directory, with the package and what a forced installation reads to find it.
//
// A package never changes once it is there, because browsers that run may still read
// it; another build gets the next number. The number is the last part of the version,
// so that a browser replaces what it has by whatever was packed later, an older build
// included. Chromium's own packer signs.
package packed

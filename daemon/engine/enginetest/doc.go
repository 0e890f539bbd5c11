// Package enginetest opens a real engine on a real store for tests of what stands
// around it. Launches are only names here: what browsers and their supervisor do is
// tested where they live.
package enginetest

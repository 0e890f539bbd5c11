// Package chromium knows the Chromium family on this machine: where a browser is,
// which one it is, what it can do for a slot, where it reads its policies, what it
// calls itself to a website, and how it packs an extension.
//
// It starts a browser only to ask its version or to pack; launches are the
// supervisor's. Browsers that cannot start a native host are refused here, once, for
// the daemon, the installer and doctor alike.
package chromium

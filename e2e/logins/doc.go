// Command logins finds out what becomes of a sign-in. For each way in which a browser's
// run can end, headless and in a window, it signs in at a site with a password and a
// second factor, lets it happen, starts the browser again, and compares three things:
// what the site says, which of the browser's stores came back, and what the product's
// status said.
//
// It runs the product as it is installed, under a user manager of its own, in browsers
// without a debugging switch: the site refuses one that says it is automated. What a
// person would type is typed by an agent's actions.
//
// It fails if status takes a slot for signed in while the site does not, and if a sign-in
// is lost where it should stay.
package main

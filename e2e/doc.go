// Package e2e tests SessionDock in a real Chromium, and the facts about Chromium
// on which its design rests. The facts are established without SessionDock, by a
// small extension of the tests' own, so that a change of the browser is noticed as
// such. What a test says of a website is the site's own count.
package e2e

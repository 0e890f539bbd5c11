package main

// render is the page in the documentation.
func render(outcomes []outcome) string {
	return `# What becomes of a sign-in

Written by ` + "`make logins`" + `; do not edit it. For each row a browser is signed in at a test site
with a password and a second factor, a person confirms it (` + "`sessiondock confirm`" + `), something
happens, and the browser is started again. The site refuses a browser that says it is
automated. It keeps who is signed in by two cookies and asks for both, one that lasts and
one of the session; its page has a token in the local storage and one in an IndexedDB.
*Signed in* is the site's answer. ` + "`status`" + ` was read before the site was asked.

The command fails if ` + "`status`" + ` takes a slot for signed in that the site does not, if it says
*prepared* and not everything came back, or if a sign-in is lost that should stay.

` + table(outcomes) + `
- **prepared**: confirmed, and known to be on the disk: by a clean end of the browser, or
  because it has run on for 75 s, in which it writes whatever it had.
- **may be lost**: the browser ended without a clean stop before that. No agent is lent the
  slot under a binding with that account until a person has confirmed it again.
- **not a clean end**: ` + "`status`" + ` warns, until the next clean one, that what sites stored in the
  last minute may be lost.

A page that asks whether it may be left does not keep a browser from a clean stop: the
extension accepts the question. A person's own word that a site has signed them out, or a
site that ends sessions by itself, shows in no file; for that there are
[probes](../README.md#sign-ins).
`
}

// Package cdp is the endpoint for agents' own DevTools clients: Playwright, Puppeteer,
// chromedp and others connect to it and find a browser with the lease's tabs, and
// nothing else. It is HTTP and WebSocket on 127.0.0.1; the address carries a secret of
// one lease and one epoch.
//
// What concerns the browser as a whole, which an extension cannot be asked, it answers
// itself (browser.go). Each command for a page becomes an action like every other: it
// is admitted by the core, recorded, and passes the three gates. What pages say is
// passed on to the clients of that epoch only; when the epoch ends the sockets are
// closed with a reason, and nothing that was under way gets an invented answer.
package cdp

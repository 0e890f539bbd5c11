package manifests

// DaemonPage renders the manual page of the daemon. Date is that of the version it
// describes, as the page shows it.
func DaemonPage(date string) []byte {
	return render("sessiondockd.1.tmpl", map[string]string{"Date": date})
}

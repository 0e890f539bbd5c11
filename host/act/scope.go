package act

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
)

// What a setting of the binding opens is held to the binding's origins: cookies by their
// domain, what is stored by its origin, requests by their address. extension/scope.js says
// the same again at the dispatch gate, and has the last word on an address.

// within are a binding's origins; none: any website's.
type within []string

func (w within) address(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && core.CheckAddress(text, w) == nil
}

// domain says whether a cookie's domain is an origin's host. Ports and schemes are all the
// same to cookies.
func (w within) domain(name string) bool {
	bare := func(host string) string { return strings.Trim(strings.ToLower(host), "[]") }
	return len(w) == 0 || slices.ContainsFunc(w, func(origin string) bool {
		u, err := url.Parse(origin)
		return err == nil && bare(u.Hostname()) == bare(strings.TrimPrefix(name, "."))
	})
}

// stored says whether what is stored in a place is the origins'. A partition is written
// behind its origin.
func (w within) stored(place string) bool {
	if i := strings.IndexAny(place, "^|"); i >= 0 {
		place = place[:i]
	}
	return w.address(place)
}

const originHint = "a person allows it: remove the binding and make it again with --origin ORIGIN"

func beyond(what string) *core.Error {
	return core.Refuse(core.CodePolicy, what+" is not of one of the binding's origins", originHint)
}

// scope refuses what is beyond the binding's origins in a command that a setting opens.
func scope(method string, params json.RawMessage, w within, allow []string) *core.Error {
	domain, name, _ := strings.Cut(method, ".")
	switch {
	case method == "Network.setCookie", method == "Network.deleteCookies":
		return w.cookie(object(params))
	case name == "setCookies":
		var all []json.RawMessage
		if json.Unmarshal(object(params)["cookies"], &all) != nil {
			return badArgument("%s needs cookies", method)
		}
		for _, one := range all {
			if bad := w.cookie(object(one)); bad != nil {
				return bad
			}
		}
	case method == "Fetch.continueRequest":
		if to, ok := textOf(object(params), "url"); !ok || to != "" && !w.address(to) {
			return beyond("that address")
		}
		return cookieSent(object(params), allow)
	case method == "Fetch.continueResponse", method == "Fetch.fulfillRequest":
		return w.headers(object(params), allow)
	case slices.Contains([]string{"getCookies", "getStorageKey", "getStorageKeyForFrame"}, name):
	case slices.Contains([]string{"CacheStorage", "Storage"}, domain):
		return w.storage(method, object(params))
	}
	return nil
}

func object(raw json.RawMessage) (m map[string]json.RawMessage) {
	json.Unmarshal(raw, &m) //nolint:errcheck // then it has no members
	return m
}

// textOf is a member that is a text or missing.
func textOf(m map[string]json.RawMessage, name string) (s string, ok bool) {
	raw, given := m[name]
	return s, !given || string(raw) != "null" && json.Unmarshal(raw, &s) == nil
}

func (w within) cookie(c map[string]json.RawMessage) *core.Error {
	of, isText := textOf(c, "url")
	name, named := textOf(c, "domain")
	if !isText || !named || of != "" && !w.address(of) || name != "" && !w.domain(name) {
		return beyond("that cookie")
	}
	return nil
}

var deletesCookies = regexp.MustCompile(`(^|,)\s*(all|cookies)\s*(,|$)`)

func (w within) storage(method string, p map[string]json.RawMessage) *core.Error {
	names := []string{"origin", "securityOrigin", "storageKey", "cacheId"}
	places := 0
	for _, it := range []map[string]json.RawMessage{p, object(p["storageBucket"])} {
		for _, name := range names {
			place, isText := textOf(it, name)
			if !isText || place != "" && !w.stored(place) {
				return beyond("what is stored there")
			}
			if place != "" {
				places++
			}
		}
	}
	if places == 0 {
		return core.Refuse(core.CodeInvalid, method+" names no origin", "name the storage key")
	}
	if types, isText := textOf(p, "storageTypes"); !isText || deletesCookies.MatchString(types) {
		return notAllowed(method+" deletes no cookies", "Network.deleteCookies does, one by one")
	}
	return nil
}

// cookieSent refuses a request with a Cookie header.
func cookieSent(p map[string]json.RawMessage, allow []string) *core.Error {
	var all []struct {
		Name string `json:"name"`
	}
	if raw, given := p["headers"]; given && json.Unmarshal(raw, &all) != nil {
		return badArgument("headers must be a list of name and value")
	}
	for _, h := range all {
		name := strings.ToLower(strings.TrimSpace(h.Name))
		if (name == "cookie" || name == "cookie2") && !slices.Contains(allow, "cookies") {
			return core.NotAllowed("a Cookie header", "cookies")
		}
	}
	return nil
}

var cookieDomain = regexp.MustCompile(`(?i);\s*domain\s*=\s*([^;]*)`)

// headers refuses an answer in a page's place that would set a cookie elsewhere.
func (w within) headers(p map[string]json.RawMessage, allow []string) *core.Error {
	if raw, given := p["binaryResponseHeaders"]; given && string(raw) != `""` {
		return notAllowed("binaryResponseHeaders is not passed on", "use responseHeaders")
	}
	var all []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	if raw, given := p["responseHeaders"]; given && json.Unmarshal(raw, &all) != nil {
		return badArgument("responseHeaders must be a list of name and value")
	}
	for _, h := range all {
		if strings.ContainsAny(h.Name+h.Value, "\x00\r\n") {
			return core.Refuse(core.CodeInvalid, "a header holds the end of a line", "name each header by itself")
		}
		if name := strings.ToLower(strings.TrimSpace(h.Name)); name != "set-cookie" && name != "set-cookie2" {
			continue
		}
		if !slices.Contains(allow, "cookies") {
			return core.NotAllowed("an answer with Set-Cookie", "cookies")
		}
		for _, m := range cookieDomain.FindAllStringSubmatch(h.Value, -1) {
			if of := strings.TrimSpace(m[1]); of != "" && !w.domain(of) {
				return beyond("that cookie")
			}
		}
	}
	return nil
}

// only takes the cookies of other origins out of an answer.
func (w within) only(method string, result json.RawMessage) json.RawMessage {
	if len(w) == 0 || method != "Network.getCookies" && method != "Network.getAllCookies" && method != "Storage.getCookies" {
		return result
	}
	var all []json.RawMessage
	json.Unmarshal(object(result)["cookies"], &all) //nolint:errcheck // then there are none
	own := slices.DeleteFunc(all, func(one json.RawMessage) bool {
		of, ok := textOf(object(one), "domain")
		return !ok || !w.domain(of)
	})
	if own == nil {
		own = []json.RawMessage{}
	}
	return jsonOf(map[string]any{"cookies": own})
}

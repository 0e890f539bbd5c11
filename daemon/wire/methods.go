package wire

import "strings"

// MethodInfo is one row of Methods.
type MethodInfo struct {
	Effect bool   // it can change the page, or what the page does: recorded as a write
	Script bool   // it runs the agent's own script, or can leave code of the agent's in the page
	Input  bool   // it is input: a barrier follows
	Needs  string // the setting of the binding (core.Settings) without which it is refused
	Never  string // why it is refused whatever the binding says
}

// Methods is the one table of DevTools methods for an agent, on tab and child sessions
// alike: the host asks it, and the extension again at the dispatch gate. What is not in
// it does not exist for an agent. A method gets in only by being harmless to the
// person's sign-ins, to other tabs and to the fence.
var Methods = methods(
	kind{what: MethodInfo{}, names: map[string]string{
		"Accessibility": "enable disable getFullAXTree getRootAXNode getPartialAXTree getChildAXNodes getAXNodeAndAncestors queryAXTree",
		"Animation":     "enable disable getCurrentTime getPlaybackRate",
		"Audits":        "enable disable",
		"CSS": "enable disable getBackgroundColors getComputedStyleForNode getInlineStylesForNode getMatchedStylesForNode getMediaQueries " +
			"getPlatformFontsForNode getStyleSheetText collectClassNames startRuleUsageTracking stopRuleUsageTracking takeCoverageDelta",
		"DOM": "enable disable collectClassNamesFromSubtree describeNode discardSearchResults getAttributes getBoxModel getContentQuads getDocument " +
			"getFrameOwner getNodeForLocation getNodesForSubtreeByStyle getOuterHTML getRelayoutBoundary getSearchResults getTopLayerElements " +
			"performSearch pushNodeByPathToFrontend pushNodesByBackendIdsToFrontend querySelector querySelectorAll requestChildNodes requestNode " +
			"resolveNode setInspectedNode",
		"DOMDebugger": "getEventListeners",
		"DOMSnapshot": "enable disable captureSnapshot",
		"Emulation":   "setFocusEmulationEnabled setDefaultBackgroundColorOverride getScreenInfos",
		"Input":       "setInterceptDrags",
		"Inspector":   "enable",
		"IO":          "read close",
		"LayerTree":   "enable disable",
		"Log":         "enable disable clear startViolationsReport stopViolationsReport",
		"Media":       "enable disable",
		"Network": "enable disable getCertificate getRequestPostData getResponseBody getSecurityIsolationStatus searchInResponseBody " +
			"setCacheDisabled setBypassServiceWorker setAttachDebugStack streamResourceContent enableReportingApi",
		"Overlay": "enable disable hideHighlight highlightNode highlightQuad highlightRect setShowViewportSizeOnResize",
		"Page": "enable captureScreenshot createIsolatedWorld getAppManifest getFrameTree getInstallabilityErrors getLayoutMetrics " +
			"getNavigationHistory getOriginTrials getResourceContent getResourceTree printToPDF removeScriptToEvaluateOnNewDocument searchInResource " +
			"setFontFamilies setFontSizes setInterceptFileChooserDialog setLifecycleEventsEnabled startScreencast stopScreencast screencastFrameAck",
		"Performance":         "enable disable getMetrics",
		"PerformanceTimeline": "enable",
		"Preload":             "enable disable",
		"Runtime": "enable disable awaitPromise compileScript discardConsoleEntries getExceptionDetails getHeapUsage getIsolateId getProperties " +
			"globalLexicalScopeNames queryObjects releaseObject releaseObjectGroup removeBinding runIfWaitingForDebugger setAsyncCallStackDepth " +
			"setMaxCallStackSizeToCapture",
		"Target":   "getTargetInfo setAutoAttach",
		"WebAudio": "enable disable",
		"WebMCP":   "enable disable",
	}},
	kind{what: MethodInfo{Effect: true}, names: map[string]string{
		"CSS": "addRule createStyleSheet forcePseudoState setEffectivePropertyValueForNode setKeyframeKey setMediaText setRuleSelector setStyleSheetText setStyleTexts",
		"DOM": "focus markUndoableState removeAttribute removeNode scrollIntoViewIfNeeded",
		"Emulation": "clearDeviceMetricsOverride clearGeolocationOverride clearIdleOverride resetPageScaleFactor setAutoDarkModeOverride setCPUThrottlingRate " +
			"setDeviceMetricsOverride setEmitTouchEventsForMouse setEmulatedMedia setEmulatedVisionDeficiency setGeolocationOverride " +
			"setHardwareConcurrencyOverride setIdleOverride setLocaleOverride setPageScaleFactor setScriptExecutionDisabled setScrollbarsHidden " +
			"setTimezoneOverride setTouchEmulationEnabled setUserAgentOverride",
		"Network": "emulateNetworkConditions emulateNetworkConditionsByRule overrideNetworkState setBlockedURLs setExtraHTTPHeaders setUserAgentOverride",
		"Page":    "bringToFront handleJavaScriptDialog navigate navigateToHistoryEntry setWebLifecycleState stopLoading",
		"Runtime": "terminateExecution",
	}},
	kind{what: MethodInfo{Effect: true, Script: true}, names: map[string]string{
		// Markup holds code: a handler, a script, the address of a frame. A node that is put
		// somewhere, or has another name or text, may become such.
		"DOM":     "copyTo moveTo redo setAttributeValue setAttributesAsText setNodeName setNodeValue setOuterHTML undo",
		"Page":    "addScriptToEvaluateOnNewDocument reload setDocumentContent",
		"Runtime": "addBinding callFunctionOn evaluate runScript",
	}},
	kind{what: MethodInfo{Effect: true, Input: true}, names: map[string]string{
		"DOM": "setFileInputFiles",
		"Input": "cancelDragging dispatchDragEvent dispatchKeyEvent dispatchMouseEvent dispatchTouchEvent emulateTouchFromMouseEvent imeSetComposition " +
			"insertText synthesizePinchGesture synthesizeScrollGesture synthesizeTapGesture",
	}},
	// What a setting opens is held to the binding's origins: host/act/scope.go.
	kind{what: MethodInfo{Needs: "cookies"}, names: map[string]string{
		"Network": "getAllCookies getCookies", "Storage": "getCookies",
	}},
	kind{what: MethodInfo{Needs: "cookies", Effect: true}, names: map[string]string{
		"Network": "deleteCookies setCookie setCookies", "Storage": "setCookies",
	}},
	kind{what: MethodInfo{Needs: "storage"}, names: map[string]string{
		"CacheStorage": "requestCacheNames requestCachedResponse requestEntries",
		"Storage":      "getUsageAndQuota getStorageKey getStorageKeyForFrame",
	}},
	kind{what: MethodInfo{Needs: "storage", Effect: true}, names: map[string]string{
		"CacheStorage": "deleteCache deleteEntry",
		"Storage":      "clearDataForOrigin clearDataForStorageKey",
	}},
	kind{what: MethodInfo{Needs: "interception"}, names: map[string]string{"Fetch": "enable disable getResponseBody takeResponseBodyAsStream"}},
	kind{what: MethodInfo{Needs: "interception", Effect: true}, names: map[string]string{"Fetch": "continueRequest continueWithAuth failRequest"}},
	// An answer in a page's place may be a script.
	kind{what: MethodInfo{Needs: "interception", Effect: true, Script: true}, names: map[string]string{"Fetch": "continueResponse fulfillRequest"}},
	kind{what: MethodInfo{Never: "it would sign the person out of every website; cookies are deleted one by one"}, names: map[string]string{
		"Network": "clearBrowserCookies", "Storage": "clearCookies",
	}},
	kind{what: MethodInfo{Never: "it is the whole browser's, not this lease's pages'"}, names: map[string]string{"Network": "clearBrowserCache setCookieControls"}},
	kind{what: MethodInfo{Never: "downloads go into the slot's directory, wherever a client would have them"}, names: map[string]string{"Page": "setDownloadBehavior"}},
	kind{what: MethodInfo{Never: "Chromium gives it to no extension; a script in the page has the same"}, names: map[string]string{
		"DOMStorage": "enable disable clear getDOMStorageItems removeDOMStorageItem setDOMStorageItem",
		"IndexedDB":  "enable disable clearObjectStore deleteDatabase deleteObjectStoreEntries getMetadata requestData requestDatabase requestDatabaseNames",
	}},
	kind{what: MethodInfo{Never: "Chromium lets no extension change permissions: a person does, in the page"}, names: map[string]string{
		"Browser": "grantPermissions resetPermissions setPermission",
	}},
	kind{what: MethodInfo{Never: "the fence and the record rest on what it would switch off"}, names: map[string]string{
		"Page": "disable", "Inspector": "disable",
	}},
	kind{what: MethodInfo{Never: "it would end every page of that process"}, names: map[string]string{"Page": "crash"}},
	kind{what: MethodInfo{Never: "it would take a protection of the website's away"}, names: map[string]string{"Page": "setBypassCSP", "Security": "setIgnoreCertificateErrors"}},
	kind{what: MethodInfo{Never: "a page that is stopped cannot be brought to rest when a person takes over"}, names: map[string]string{
		"Debugger":    "enable disable pause resume setSkipAllPauses setAsyncCallStackDepth setBreakpointByUrl stepInto stepOut stepOver",
		"Emulation":   "setVirtualTimePolicy",
		"Page":        "waitForDebugger",
		"DOMDebugger": "setDOMBreakpoint setEventListenerBreakpoint setXHRBreakpoint",
	}},
	kind{what: MethodInfo{Never: "it would shut the person's own hands out of the page"}, names: map[string]string{"Input": "setIgnoreInputEvents"}},
	kind{what: MethodInfo{Never: "it would fetch with the person's sign-ins from any website"}, names: map[string]string{"Network": "loadNetworkResource replayXHR"}},
	kind{what: MethodInfo{Never: "it records the whole browser, not this lease's tabs"}, names: map[string]string{"Tracing": "start end"}},
)

type kind struct {
	what  MethodInfo
	names map[string]string // by domain
}

func methods(kinds ...kind) map[string]MethodInfo {
	table := map[string]MethodInfo{}
	for _, k := range kinds {
		for domain, names := range k.names {
			for _, name := range strings.Fields(names) {
				method := domain + "." + name
				if _, twice := table[method]; twice {
					panic("wire: two rows for " + method)
				}
				table[method] = k.what
			}
		}
	}
	return table
}

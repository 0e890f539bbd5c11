// Command chromedp-0.14 tries a lease's address with chromedp 0.14.2, whose interface is
// another than that of later versions. It prints what it saw, as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: chromedp-0.14 CDP_URL BUTTON_PAGE FRAME_PAGE FILE")
		os.Exit(2)
	}
	saw, err := try(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(saw)
}

func try(address, button, frame, file string) (map[string]any, error) {
	within, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	alloc, cancel := chromedp.NewRemoteAllocator(within, address, chromedp.NoModifyURL)
	defer cancel()
	ctx, cancel := chromedp.NewContext(alloc)
	defer cancel()
	saw := map[string]any{}
	var title, state, typed, inner, files, answer string
	var sum, width, height int
	var picture []byte
	err := chromedp.Run(ctx,
		chromedp.Navigate(button),
		chromedp.Title(&title),
		chromedp.Click("#press", chromedp.ByQuery),
		chromedp.Text("#state", &state, chromedp.ByQuery),
		chromedp.Evaluate("1+2", &sum),
		chromedp.EmulateViewport(640, 480),
		chromedp.Evaluate("innerWidth", &width),
		chromedp.Evaluate("innerHeight", &height),
		chromedp.CaptureScreenshot(&picture),
		chromedp.Evaluate(`document.body.insertAdjacentHTML("beforeend", "<input id=name><input id=file type=file>"), 0`, nil),
		chromedp.SendKeys("#name", "Ada", chromedp.ByQuery),
		chromedp.Value("#name", &typed, chromedp.ByQuery),
		chromedp.SetUploadFiles("#file", []string{file}, chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector("#file").files[0].name`, &files),
	)
	if err != nil {
		return nil, fmt.Errorf("in the first tab: %w", err)
	}
	saw["title"], saw["pressed"], saw["sum"], saw["typed"], saw["file"] = strings.Split(title, " ")[0], state, sum, typed, files
	saw["viewport"], saw["picture"] = fmt.Sprintf("%dx%d", width, height), len(picture) > 100

	chromedp.ListenTarget(ctx, func(event any) {
		if dialog, ok := event.(*page.EventJavascriptDialogOpening); ok {
			saw["dialog"] = dialog.Message
			go chromedp.Run(ctx, page.HandleJavaScriptDialog(true))
		}
	})
	if err := chromedp.Run(ctx, chromedp.Evaluate(`String(confirm("Sure?"))`, &answer)); err != nil {
		return nil, fmt.Errorf("a dialog: %w", err)
	}
	saw["answer"] = answer

	// Another tab, with a frame.
	second, cancel := chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Run(second, chromedp.Navigate(frame), chromedp.Text("body", &inner, chromedp.ByQuery)); err != nil {
		return nil, fmt.Errorf("in a second tab: %w", err)
	}
	saw["second"] = strings.TrimSpace(inner) != ""
	targets, err := chromedp.Targets(ctx)
	if err != nil {
		return nil, err
	}
	pages := 0
	for _, t := range targets {
		if t.Type == "page" {
			pages++
		}
	}
	saw["pages"] = pages
	if err := chromedp.Cancel(second); err != nil {
		return nil, fmt.Errorf("close the second tab: %w", err)
	}
	cookies := chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) error { _, err := network.GetCookies().Do(ctx); return err }))
	saw["cookies"] = cookies == nil
	return saw, chromedp.Cancel(ctx)
}

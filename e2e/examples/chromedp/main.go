// Command chromedp prints the title of a page, through a lease:
//
//	sessiondock run -- go run . URL
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"
)

func main() {
	browser, cancel := remote.NewAllocator(context.Background(), os.Getenv("SESSIONDOCK_CDP_URL"))
	defer cancel()
	tab, cancel := chromedp.NewContext(browser) // a tab of its own, closed at the end
	defer cancel()
	if err := chromedp.Do(tab, chromedp.Navigate(os.Args[1])); err != nil {
		log.Fatal(err)
	}
	title, err := chromedp.Run(tab, chromedp.Title())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(title)
}

package access_test

import (
	"fmt"

	"github.com/stint-tasks/stint/service/access"
)

func ExampleParse() {
	grants, err := access.Parse([]byte(`
shop:
  - verbs: [insert, read]
    actions: ["mail/*", bill]
    ids: ["shop/*"]
`))
	if err != nil {
		panic(err)
	}
	shop := grants.Principal("shop")
	fmt.Println(shop.May(access.Insert, "mail/send", "shop/1"))
	fmt.Println(shop.May(access.Insert, "mail/send", "other/1"))
	fmt.Println(shop.May(access.Control, "mail/send", "shop/1"))
	fmt.Println(grants.Principal("somebody else").Has(access.Read))
	// Output:
	// true
	// false
	// false
	// false
}

package tokens_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-tasks/stint/service/tokens"
)

func ExampleNew() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tokens")

	token, err := tokens.New(path, "shop")
	if err != nil {
		panic(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	known, err := tokens.Parse(text)
	fmt.Println(known.Name(token))
	fmt.Println(strings.Contains(string(text), token), err)
	// Output:
	// shop true
	// false <nil>
}

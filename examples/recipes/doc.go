// Package recipes holds the code of docs/guides/recipes.md and its tests, and the code that
// docs/guides/testing.md shows. All of it is in test files: nothing is to be imported.
package recipes

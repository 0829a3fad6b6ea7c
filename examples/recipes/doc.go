// Package recipes holds the code of docs/recipes.md and its tests. All of it is in test files:
// nothing is to be imported.
package recipes

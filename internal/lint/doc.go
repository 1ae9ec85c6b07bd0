// Package lint holds no code: its tests are the rules of this repository. They say which package
// may import which (imports_test.go), how long files, functions and lines may be, that every
// package and every exported name is documented (style_test.go), what tests may not do
// (tests_test.go), and that the links of the documentation lead somewhere (docs_test.go).
//
// A rule that has to be broken is broken in the open: by a row in its list of exceptions, with the
// reason.
package lint

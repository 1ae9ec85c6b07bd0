// Package expr compiles the expressions and texts of a configuration once and evaluates them
// against messages.
//
// An expression is CEL with optional types, the string functions, json(text) and urldecode(text). A
// template is a text with
// ${…}; a tree is a value whose texts are templates. All of them are checked when they are
// compiled: a name that doesn't exist at its place of the configuration is refused there.
//
// Values go in and come out in the terms of internal/value and are not copied on the way in. A
// number that CEL can't hold exactly keeps its literal: it equals only the same number, and can
// be ordered, but not calculated with.
//
// Evaluation is pure and bounded: work, and what a function may produce, have limits. Everything
// but Vars is safe for concurrent use, and Vars too while nobody changes it.
package expr

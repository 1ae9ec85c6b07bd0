// Package deploy holds no code: its tests hold the files of this folder (an image, a unit of
// systemd, Compose, Kubernetes, alerts) to the program that they run. The image's own build command
// makes that program.
//
// What needs a container runtime or a cluster is not run: no image is built, nothing is scheduled.
// The README says what has been checked, and how.
package deploy

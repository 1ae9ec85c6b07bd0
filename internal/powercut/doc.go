// Package powercut is a simulated disk below SQLite, for tests which prove that nothing
// acknowledged is lost when the power fails, and that a full or vanished disk is survived.
//
// A [Disk] keeps two views of each file: what every reader sees, and what is sure to be there
// after the power failed. Only a sync moves writes from the first view into the second. A test
// opens its database on the disk, loads it, cuts the power in the middle ([Disk.CutAfter]), takes
// what could have survived ([Disk.Survive]) and opens the database there again:
//
//	disk := powercut.NewDisk(seed)
//	db := open("file:/once.db?vfs=" + disk.Register(t))
//	disk.CutAfter(n)
//	load(db) // from some point on everything fails with an I/O error
//	survived := disk.Survive()
//	db = open("file:/once.db?vfs=" + survived.Register(t))
//
// # What is modelled
//
//   - Data. Writes and truncations since the last sync of their file may each be on the platter or
//     not. The seed chooses for each file: none of them, all of them, the first few of them, or
//     any of them in any order; the last one (in the last case any of them) may be torn. A torn
//     write leaves a prefix or any subset of its 512-byte sectors. A dropped write beyond the end
//     of the file may still have grown it, with zeros.
//   - Barriers. Files are independent of each other: only syncs order them. A sync covers the
//     writes that ended before it began. If the power fails in a sync, the sync fails and promises
//     nothing, but its writes may have arrived.
//   - Names. As on ext4, a sync of a file makes its creation durable, and with it what happened to
//     its name before. A sync of the directory settles every name in it: when SQLite asks for one
//     with a deletion (synchronous=EXTRA), and with the first sync of a journal or WAL through a
//     handle, where the library's own VFS does it too. Until then the seed decides whether a
//     deleted file comes back.
//   - Bytes beside a write are not damaged (SQLite's "powersafe overwrite", which the library's
//     own VFS claims too), sectors are atomic, and bits do not rot.
//
// Not modelled: a disk that lies about syncs, a failed sync that drops its pages, renames and
// directories (SQLite uses neither). The WAL-index is a file in the test's temporary directory and
// never survives, since SQLite rebuilds it. Temporary files are memory and are not counted.
package powercut

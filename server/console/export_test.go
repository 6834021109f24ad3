package console

// Files are the files of the page as they are built in.
var Files = embedded

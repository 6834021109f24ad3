package version

// source is the commit that a release was made from. It is empty in the repository: scripts/release
// sets it in the commit that it tags, because go install gets a module without its history.
const source = ""

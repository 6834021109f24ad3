package seqd

import (
	"cmp"
	"strings"
)

// ownerMark follows the name of a token in an owner. No name has it.
const ownerMark = "~"

// OwnerOf returns the [Caller].Owner of a token with this name and ID. A token that is made after
// another one of the same name was removed has another ID, so it is another owner. Without an ID the
// name is the owner.
func OwnerOf(name, id string) string {
	if id == "" {
		return name
	}
	return name + ownerMark + id
}

// OpenOwnerOf returns the [Caller].Owner of a token that owns what was made while nobody was asked
// for a token.
func OpenOwnerOf(name string) string { return name + ownerMark }

// OwnerName returns the name of the token in an owner.
func OwnerName(owner string) string {
	name, _, _ := strings.Cut(owner, ownerMark)
	return name
}

// OwnerID returns what identifies the owner of an answer or a reservation in stores: "" for what was
// made while nobody was asked for a token.
func (c *Caller) OwnerID() string {
	if strings.HasSuffix(c.Owner, ownerMark) {
		return ""
	}
	return cmp.Or(c.Owner, c.Name)
}

package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// A message of the MongoDB wire protocol, all numbers little-endian:
//
//	 0       4          8           12       16        20
//	| length | requestID | responseTo | opCode | flags … | sections, checksum
//	|<-------------- header --------------->|<- OP_MSG only
//
// length counts everything, itself included. See the MongoDB wire protocol and OP_MSG
// specifications.
type message []byte

const (
	headerSize     = 16
	maxMessageSize = 48_000_000 // maxMessageSizeBytes in the reply to hello
	opMsg          = 2013

	flagChecksum = 1 << 0 // the last four bytes are a CRC-32C of the rest
	// in a request: no reply is wanted; in a reply: another reply follows
	flagMoreToCome      = 1 << 1
	flagExhaustAllowed  = 1 << 16 // in a request: the reply may set moreToCome
	minMessageWithFlags = headerSize + 4
)

// readMessage reads one message. io.EOF means that the stream ended between two messages.
func readMessage(r io.Reader) (message, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(header[:])
	if length < headerSize || length > maxMessageSize {
		return nil, fmt.Errorf("a message of %d bytes", length)
	}
	m := make(message, length)
	copy(m, header[:])
	if _, err := io.ReadFull(r, m[headerSize:]); err != nil {
		return nil, fmt.Errorf("a message cut short: %w", err)
	}
	if m.opCode() == opMsg && length < minMessageWithFlags {
		return nil, fmt.Errorf("an OP_MSG of %d bytes", length)
	}
	return m, nil
}

func (m message) requestID() uint32  { return binary.LittleEndian.Uint32(m[4:]) }
func (m message) responseTo() uint32 { return binary.LittleEndian.Uint32(m[8:]) }
func (m message) opCode() uint32     { return binary.LittleEndian.Uint32(m[12:]) }

// flags returns the flags of an OP_MSG; other messages have none.
func (m message) flags() uint32 {
	if m.opCode() != opMsg {
		return 0
	}
	return binary.LittleEndian.Uint32(m[headerSize:])
}

func (m message) has(flag uint32) bool { return m.flags()&flag != 0 }

// clear clears flags and updates the checksum, if there is one.
func (m message) clear(flags uint32) {
	if !m.has(flags) {
		return
	}
	binary.LittleEndian.PutUint32(m[headerSize:], m.flags()&^flags)
	if body := len(m) - 4; m.has(flagChecksum) && body >= minMessageWithFlags {
		binary.LittleEndian.PutUint32(m[body:], crc32.Checksum(m[:body], crc32.MakeTable(crc32.Castagnoli)))
	}
}

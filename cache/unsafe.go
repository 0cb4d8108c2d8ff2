package cache

import "unsafe"

// stringOf views b as a string without copying. The string must not be used after b changes.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf views s as bytes without copying. They must not be written to, nor handed to code that keeps them:
// the generated Unmarshal methods copy what they take.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

package cache

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// The dictionary is made of every dictionaryStep-th of the first dictionarySamples objects; a listing of fewer
// makes it of what there is, unless there are too few to have much in common.
const (
	dictionarySamples = 256
	dictionaryLeast   = 16
	dictionaryStep    = 8
	dictionaryPart    = 8 << 10   // bytes of one object
	dictionarySize    = 128 << 10 // bytes at most
)

// packer compresses the objects of one kind with a dictionary made of the first ones. What objects of a kind
// have in common, which is most of them, then takes no room.
type packer struct {
	codec atomic.Pointer[codec] // nil until there is a dictionary

	mu      sync.Mutex // guards samples and the encoder, whose tables are too large to have several of
	samples []string   // nil once there is a dictionary
}

type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// pack returns the object compressed, or as it is while there is no dictionary.
//
// What is needed of an object that is not decoded stays readable: its UID, its revision and its labels stand
// before the compressed bytes.
func (p *packer) pack(o *object) (*object, error) {
	if p == nil || o.compressed {
		return o, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.codec.Load()
	if c == nil {
		p.samples = append(p.samples, o.encoded())
		if len(p.samples) < dictionarySamples {
			return o, nil
		}
		var err error
		if c, err = p.train(); err != nil {
			return nil, err
		}
	}
	metadata, err := o.metadata()
	if err != nil {
		return nil, err
	}
	head, err := o.encoding.head(metadata)
	if err != nil {
		return nil, err
	}
	data := string(c.encoder.EncodeAll(bytesOf(o.data), append(make([]byte, 0, len(head)+len(o.data)/2), head...)))
	h, err := o.encoding.header(data[:len(head)])
	if err != nil {
		return nil, err
	}
	return &object{
		data: data, size: o.size, head: uint32(len(head)), compressed: true, encoding: o.encoding,
		key: o.key, uid: h.uid, version: h.resourceVersion, values: o.values,
	}, nil
}

// trained makes a dictionary of what a listing showed, if that is enough, and reports whether there is one.
func (p *packer) trained() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.codec.Load() == nil && len(p.samples) >= dictionaryLeast {
		_, _ = p.train() // if it cannot be made, the next object says so
	}
	return p.codec.Load() != nil
}

// train makes the dictionary; mu is held.
func (p *packer) train() (*codec, error) {
	step := min(dictionaryStep, max(1, len(p.samples)/dictionaryLeast))
	var dictionary []byte
	for i := 0; i < len(p.samples); i += step {
		part := p.samples[i]
		dictionary = append(dictionary, part[:min(len(part), dictionaryPart, dictionarySize-len(dictionary))]...)
	}
	const id = 1
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderDictRaw(id, dictionary), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("make a compressor: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderDictRaw(id, dictionary), zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("make a decompressor: %w", err)
	}
	p.samples = nil
	c := &codec{encoder: encoder, decoder: decoder}
	p.codec.Store(c)
	return c, nil
}

// unpack returns the object as it was before pack: a private one, whose bytes are freed with it and what was
// decoded from it.
func (p *packer) unpack(o *object) (*object, error) {
	if !o.compressed {
		return o, nil
	}
	data, err := p.codec.Load().decoder.DecodeAll(bytesOf(o.data[o.head:]), make([]byte, 0, o.size))
	if err != nil {
		return nil, err
	}
	return &object{data: stringOf(data), size: o.size, encoding: o.encoding, key: o.key, uid: o.uid, version: o.version}, nil
}

// packAll compresses what was listed before there was a dictionary.
func (p *packer) packAll(listed map[string]*object) error {
	if !p.trained() {
		return nil
	}
	for key, o := range listed {
		packed, err := p.pack(o)
		if err != nil {
			return fmt.Errorf("compress %s: %w", key, err)
		}
		listed[key] = packed
	}
	return nil
}

// head is the part of an object's metadata that is read without decoding it, as metadata of its own.
func (enc encoding) head(metadata string) (string, error) {
	var b strings.Builder
	if enc == encodingProto {
		err := protoWalk(metadata, func(f protoField) bool {
			switch f.number {
			case protoMetaUID, protoMetaVersion, labelsMap.proto:
				b.WriteString(metadata[f.start:f.end])
			}
			return true
		})
		return b.String(), err
	}
	var members []string
	err := jsonMembers(metadata, func(m jsonMember) bool {
		switch m.name {
		case "uid", "resourceVersion", labelsMap.json:
			members = append(members, metadata[m.start:m.end])
		}
		return true
	})
	return jsonJoin('{', members, '}'), err
}

package cache

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// encoding says what language an object's bytes are in.
type encoding uint8

const (
	encodingJSON encoding = iota
	// encodingProto is the object's own protobuf message, without the envelope it travels in. Of all kinds that
	// have one, field 1 is the ObjectMeta.
	encodingProto
)

// errTruncated says that the bytes end in the middle of a value.
var errTruncated = errors.New("truncated")

// header is what identifies a state of an object. Its strings are parts of the bytes they were read from where
// that is possible.
type header struct {
	namespace, name, uid, resourceVersion string
}

// key is the object's key in a store: "namespace/name", or the name alone for a cluster-scoped object.
func (h header) key() string {
	if h.namespace == "" {
		return h.name
	}
	return h.namespace + "/" + h.name
}

// retention says what of an object is kept.
type retention struct {
	metadataOnly  bool
	managedFields bool            // keep them all, in the object
	owners        map[string]bool // else keep those of these managers, beside the object
	compressed    bool
	transformed   bool
}

// metadata returns the part of an object's bytes that is its metadata.
func (enc encoding) metadata(object string) (string, error) {
	if enc == encodingProto {
		return protoMetadata(object)
	}
	return jsonMetadata(object)
}

// header reads what identifies an object from its metadata.
func (enc encoding) header(metadata string) (header, error) {
	if enc == encodingProto {
		return protoHeader(metadata)
	}
	return jsonHeader(metadata)
}

// The maps of an ObjectMeta that are read without decoding it.
type metaMap struct {
	json  string
	proto int
}

var (
	labelsMap      = metaMap{"labels", 11}
	annotationsMap = metaMap{"annotations", 12}
)

// pairs calls yield for the entries of a map in the metadata until it returns false. Malformed bytes end it:
// what is stored was read completely once, by header.
func (enc encoding) pairs(metadata string, m metaMap, yield func(key, value string) bool) {
	if enc == encodingProto {
		protoPairs(metadata, m.proto, yield)
		return
	}
	jsonPairs(metadata, m.json, yield)
}

// strip returns an object's bytes without what the retention drops, and the managedFields entries that are to
// be kept beside it, in a form that managed decodes.
func (enc encoding) strip(object string, keep retention) (stripped, managed string, err error) {
	if enc == encodingProto {
		return protoStrip(object, keep)
	}
	return jsonStrip(object, keep)
}

// managed decodes managedFields entries that strip has put aside.
func (enc encoding) managed(s string) ([]metav1.ManagedFieldsEntry, error) {
	if s == "" {
		return nil, nil
	}
	if enc == encodingProto {
		return protoManaged(s)
	}
	return jsonManaged(s)
}

// objectMeta decodes metadata.
func (enc encoding) objectMeta(metadata string) (*metav1.ObjectMeta, error) {
	var m metav1.ObjectMeta
	var err error
	if enc == encodingProto {
		err = m.Unmarshal(bytesOf(metadata))
	} else {
		err = jsonUnmarshal(metadata, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("decode metadata: %w", err)
	}
	return &m, nil
}

// initialEventsEnd is the annotation of the bookmark that ends the initial events of a streaming list.
func (enc encoding) initialEventsEnd(metadata string) (end bool) {
	enc.pairs(metadata, annotationsMap, func(key, value string) bool {
		end = key == metav1.InitialEventsAnnotationKey && value == "true"
		return !end
	})
	return end
}

// encodingOf tells the encoding from a response's Content-Type.
func encodingOf(contentType string) (encoding, error) {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.TrimSpace(media) {
	case "application/vnd.kubernetes.protobuf":
		return encodingProto, nil
	case "application/json":
		return encodingJSON, nil
	}
	return 0, fmt.Errorf("the server answered with content type %q, which was not asked for", contentType)
}

// headerOf reads what identifies an object.
func (enc encoding) headerOf(object string) (header, error) {
	metadata, err := enc.metadata(object)
	if err != nil {
		return header{}, err
	}
	return enc.header(metadata)
}

// list reads a response to LIST.
func (enc encoding) list(data string) (resourceVersion, next string, items []string, err error) {
	if enc == encodingJSON {
		return jsonList(data)
	}
	message, err := protoUnwrap(data)
	if err != nil {
		return "", "", nil, err
	}
	return protoList(message)
}

// event reads a frame of a watch: the event's type and its object, without its envelope unless it is an ERROR's
// status.
func (enc encoding) event(frame string) (typ, object string, err error) {
	if enc == encodingJSON {
		return jsonEvent(frame)
	}
	typ, object, err = protoEvent(frame)
	if err == nil && typ != "ERROR" {
		object, err = protoUnwrap(object)
	}
	return typ, object, err
}

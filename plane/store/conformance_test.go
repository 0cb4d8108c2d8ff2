package store

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// conformance runs upstream's tests of storage.Interface, by the name of the function.
var conformance = map[string]func(ctx context.Context, t *testing.T, f *fixture){
	"RunTestCreate": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestCreate(ctx, t, f, f.stored)
	},
	"RunTestCreateWithTTL":                           plain(storagetesting.RunTestCreateWithTTL),
	"RunTestCreateWithKeyExist":                      plain(storagetesting.RunTestCreateWithKeyExist),
	"RunTestGet":                                     plain(storagetesting.RunTestGet),
	"RunTestUnconditionalDelete":                     plain(storagetesting.RunTestUnconditionalDelete),
	"RunTestConditionalDelete":                       plain(storagetesting.RunTestConditionalDelete),
	"RunTestDeleteWithSuggestion":                    plain(storagetesting.RunTestDeleteWithSuggestion),
	"RunTestDeleteWithSuggestionAndConflict":         plain(storagetesting.RunTestDeleteWithSuggestionAndConflict),
	"RunTestDeleteWithConflict":                      plain(storagetesting.RunTestDeleteWithConflict),
	"RunTestDeleteWithSuggestionOfDeletedObject":     plain(storagetesting.RunTestDeleteWithSuggestionOfDeletedObject),
	"RunTestValidateDeletionWithSuggestion":          plain(storagetesting.RunTestValidateDeletionWithSuggestion),
	"RunTestValidateDeletionWithOnlySuggestionValid": plain(storagetesting.RunTestValidateDeletionWithOnlySuggestionValid),
	"RunTestPreconditionalDeleteWithSuggestion":      plain(storagetesting.RunTestPreconditionalDeleteWithSuggestion),
	"RunTestPreconditionalDeleteWithOnlySuggestionPass": plain(
		storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass),
	"RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(ctx, t, f, f.fail)
	},
	"RunTestDeleteExpectedTransformOrDecodeError": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, f, f.fail)
	},
	"RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(ctx, t, f)
	},
	"RunTestList": func(ctx context.Context, t *testing.T, f *fixture) {
		// etcd's compaction is a write.
		compact := func(ctx context.Context, t *testing.T, resourceVersion string) {
			f.compact(ctx, t, resourceVersion)
			f.increaseRevision(ctx, t)
		}
		storagetesting.RunTestList(ctx, t, f, compact, false, nil)
	},
	"RunTestConsistentList": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestConsistentList(ctx, t, f, f.increaseRevision, false, true, false)
	},
	"RunTestGetListNonRecursive": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestGetListNonRecursive(ctx, t, f.increaseRevision, f)
	},
	"RunTestGetListWithoutErrorAggregation": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestGetListWithoutErrorAggregation(ctx, t, f, errors.New("bits flipped"))
	},
	"RunTestWatchWithUnsafeDelete": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestWatchWithUnsafeDelete(ctx, t, f, errors.New("bits flipped"))
	},
	"RunTestGetListRecursivePrefix": plain(storagetesting.RunTestGetListRecursivePrefix),
	"RunTestListContinuation": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListContinuation(ctx, t, f, f.reads)
	},
	"RunTestListPaginationRareObject": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListPaginationRareObject(ctx, t, f, f.reads)
	},
	"RunTestListContinuationWithFilter": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListContinuationWithFilter(ctx, t, f, f.reads)
	},
	"RunTestListInconsistentContinuation": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListInconsistentContinuation(ctx, t, f, f.compact)
	},
	"RunTestListResourceVersionMatch": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListResourceVersionMatch(ctx, t, f)
	},
	"RunTestListPaging":          plain(storagetesting.RunTestListPaging),
	"RunTestNamespaceScopedList": plain(storagetesting.RunTestNamespaceScopedList),
	"RunTestGuaranteedUpdate": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestGuaranteedUpdate(ctx, t, f, f.stored)
	},
	"RunTestGuaranteedUpdateWithTTL": plain(storagetesting.RunTestGuaranteedUpdateWithTTL),
	"RunTestGuaranteedUpdateChecksStoredData": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestGuaranteedUpdateChecksStoredData(ctx, t, f)
	},
	"RunTestGuaranteedUpdateWithConflict":              plain(storagetesting.RunTestGuaranteedUpdateWithConflict),
	"RunTestGuaranteedUpdateWithSuggestionAndConflict": plain(storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict),
	"RunTestTransformationFailure": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestTransformationFailure(ctx, t, f)
	},
	"RunTestStats": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestStats(ctx, t, f, f.codec, f.transformer, true)
	},
	"RunTestCompactRevision": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestCompactRevision(ctx, t, f, f.increaseRevision, f.compact)
	},
	"RunTestKeySchema": plain(storagetesting.RunTestKeySchema),

	"RunTestWatch": plain(storagetesting.RunTestWatch),
	"RunTestWatchFromZero": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestWatchFromZero(ctx, t, f, f.compact)
	},
	"RunTestDeleteTriggerWatch":        plain(storagetesting.RunTestDeleteTriggerWatch),
	"RunTestWatchFromNonZero":          plain(storagetesting.RunTestWatchFromNonZero),
	"RunTestDelayedWatchDelivery":      plain(storagetesting.RunTestDelayedWatchDelivery),
	"RunTestClusterScopedWatch":        plain(storagetesting.RunTestClusterScopedWatch),
	"RunTestNamespaceScopedWatch":      plain(storagetesting.RunTestNamespaceScopedWatch),
	"RunTestWatchContextCancel":        plain(storagetesting.RunTestWatchContextCancel),
	"RunTestWatcherTimeout":            plain(storagetesting.RunTestWatcherTimeout),
	"RunTestWatchInitializationSignal": plain(storagetesting.RunTestWatchInitializationSignal),
	"RunTestWatchDeleteEventObjectHaveLatestRV": plain(
		storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV),
	"RunTestWatchError": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestWatchError(ctx, t, f)
	},
	"RunWatchErrorIsBlockingFurtherEvents": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunWatchErrorIsBlockingFurtherEvents(ctx, t, f)
	},
	"RunOptionalTestProgressNotify": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunOptionalTestProgressNotify(ctx, t, f, f.increaseRevision)
	},
	"RunTestWatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, f, true)
	},
	"RunTestOptionalWatchBookmarksWithCorrectResourceVersion": plain(
		storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion),
	"RunSendInitialEventsBackwardCompatibility": plain(storagetesting.RunSendInitialEventsBackwardCompatibility),
	"RunWatchSemantics":                         plain(storagetesting.RunWatchSemantics),
	"RunWatchSemanticInitialEventsExtended":     plain(storagetesting.RunWatchSemanticInitialEventsExtended),
	"RunWatchListMatchSingle":                   plain(storagetesting.RunWatchListMatchSingle),
}

// notRun are upstream's functions that do not apply, with the reason.
var notRun = map[string]string{
	"RunTestGetListWithErrorAggregation": "about the alpha feature AllowUnsafeMalformedObjectDeletion, which is off: a list stops at the first object that cannot be read",
	"RunBenchmarkStoreList":              "a benchmark, see BenchmarkUpstreamList",
	"RunBenchmarkStoreStats":             "a benchmark, see BenchmarkUpstreamStats",
	"RunBenchmarkWriteThroughput":        "a benchmark, see BenchmarkUpstreamWrite",
}

func plain[I any](run func(context.Context, *testing.T, I)) func(context.Context, *testing.T, *fixture) {
	return func(ctx context.Context, t *testing.T, f *fixture) { run(ctx, t, any(f).(I)) }
}

func TestConformance(t *testing.T) {
	for name, run := range conformance {
		t.Run(name, func(t *testing.T) {
			// A short interval only matters to those who wait for a bookmark.
			f := newFixture(t, Config{BookmarkInterval: time.Second})
			run(t.Context(), t, f)
		})
	}
}

// TestConformanceIsComplete fails when upstream has a function that is neither run nor known not to apply.
func TestConformanceIsComplete(t *testing.T) {
	file, _ := runtime.FuncForPC(reflect.ValueOf(storagetesting.RunTestCreate).Pointer()).FileLine(0)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources of the conformance tests beside %s (%v)", file, err)
	}
	upstream := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Run") {
				upstream[f.Name.Name] = true
			}
		}
	}
	if len(upstream) < 60 {
		t.Errorf("only %d functions found, there should be more than 60", len(upstream))
	}
	for name := range upstream {
		_, runs := conformance[name]
		if _, excused := notRun[name]; runs == excused {
			t.Errorf("%s: run %v, listed as not applicable %v; want one of them", name, runs, excused)
		}
	}
	for name := range conformance {
		if !upstream[name] {
			t.Errorf("%s is run but does not exist upstream", name)
		}
	}
	for name, why := range notRun {
		if !upstream[name] || why == "" {
			t.Errorf("%s is listed without a reason or does not exist upstream", name)
		}
	}
}

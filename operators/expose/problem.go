package expose

import "fmt"

// problem is something about an object that only its author can mend. It becomes an Event on the object.
type problem struct{ reason, note string }

// The reasons of problems.
const (
	reasonInvalidConfig      = "InvalidConfiguration"
	reasonInvalidAnnotation  = "InvalidAnnotation"
	reasonInvalidHost        = "InvalidHost"
	reasonNoDomain           = "NoDomain"
	reasonNoPorts            = "NoPorts"
	reasonUnknownPort        = "UnknownPort"
	reasonUnsupportedExposer = "UnsupportedExposer"
	reasonUnsuitableService  = "UnsuitableService"
	reasonNoGateway          = "NoGateway"
	reasonNotServed          = "HTTPRouteNotServed"
	reasonNoNode             = "NoNodeAddress"
	reasonNameTaken          = "NameTaken"
	reasonPathTaken          = "PathTaken"
	reasonConflict           = "ConflictingSettings"
	reasonNotAccepted        = "NotAccepted"
	reasonRejected           = "Rejected"
	reasonInjection          = "InvalidInjection"
)

// problems collects them.
type problems []problem

func (p *problems) add(reason, format string, args ...any) {
	*p = append(*p, problem{reason, fmt.Sprintf(format, args...)})
}

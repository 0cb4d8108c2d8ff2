package bench
import (
 _ "github.com/setpoint-dev/setpoint"
 _ "github.com/setpoint-dev/setpoint/operators/foo"
 _ "github.com/setpoint-dev/setpoint/plane/warm"
 _ "sigs.k8s.io/controller-runtime/pkg/manager"
 _ "sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

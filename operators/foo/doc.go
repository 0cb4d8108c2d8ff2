package foo
import (
_ "k8s.io/api/apps/v1"
_ "github.com/setpoint-dev/setpoint"
)

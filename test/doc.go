package test
import (
 _ "github.com/setpoint-dev/setpoint"
 _ "github.com/setpoint-dev/setpoint/operators/foo"
 _ "github.com/setpoint-dev/setpoint/plane/warm"
)

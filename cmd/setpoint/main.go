package main
import (
 _ "github.com/setpoint-dev/setpoint"
 _ "github.com/setpoint-dev/setpoint/operators/foo"
 _ "github.com/setpoint-dev/setpoint/plane/warm"
 _ "github.com/spf13/cobra"
 _ "k8s.io/kubectl/pkg/cmd"
)
func main(){}

package setpoint

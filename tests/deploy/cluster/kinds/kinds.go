// Package kinds is there for the module of the Prometheus operator's types, of which controller-gen
// makes the definition of PodMonitor.
package kinds

import _ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"

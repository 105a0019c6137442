// Asks as the kubelet does, with its own code: one gRPC probe.
//
//	probe PORT SERVICE TIMEOUT
//
// The first line of the output is success or failure, the rest what the kubelet would write into an
// event. Exit code 0 for success.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"k8s.io/kubernetes/pkg/probe"
	"k8s.io/kubernetes/pkg/probe/grpc"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "expected PORT SERVICE TIMEOUT")
		os.Exit(2)
	}
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "expected a port, got", os.Args[1])
		os.Exit(2)
	}
	timeout, err := time.ParseDuration(os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, "expected a time such as 3s, got", os.Args[3])
		os.Exit(2)
	}
	result, output, err := grpc.New().Probe("127.0.0.1", os.Args[2], port, timeout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Printf("%s\n%s\n", result, output)
	if result != probe.Success {
		os.Exit(1)
	}
}

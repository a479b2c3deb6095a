// SPDX-License-Identifier: MIT

// An echo server beside endless loops, on all cores: prints its port, and serves until it is ended.
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

func serve(connection net.Conn) {
	buffer := make([]byte, 65536)
	for {
		n, err := connection.Read(buffer)
		if err != nil {
			return
		}
		connection.Write(buffer[:n])
	}
}

func main() {
	loops, _ := strconv.Atoi(os.Args[1])
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for i := 0; i < loops; i++ {
		go func() {
			for {
			}
		}()
	}
	for {
		connection, err := listener.Accept()
		if err == nil {
			go serve(connection)
		}
	}
}

// SPDX-License-Identifier: MIT
// Empty calls by Java RMI between two virtual machines, one at a time; us for one. The second one
// is started by the first.
import java.nio.file.Path;
import java.rmi.Remote;
import java.rmi.RemoteException;
import java.rmi.registry.LocateRegistry;
import java.rmi.registry.Registry;
import java.rmi.server.UnicastRemoteObject;
import java.util.Scanner;

public class Nodes {
    interface Server extends Remote {
        void nothing() throws RemoteException;
    }

    static class Idle implements Server {
        public void nothing() {}
    }

    static final Idle kept = new Idle();

    static void serve() throws Exception {
        try (var probe = new java.net.ServerSocket(0)) {
            int port = probe.getLocalPort();
            probe.close();
            Registry registry = LocateRegistry.createRegistry(port);
            registry.rebind("server", UnicastRemoteObject.exportObject(kept, 0));
            System.out.println(port);
            System.in.read(); // until the client ends
            System.exit(0);
        }
    }

    static double call(Server server, int count) throws Exception {
        long begin = System.nanoTime();
        for (int i = 0; i < count; i++) server.nothing();
        return (System.nanoTime() - begin) / 1e3 / count;
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("java.rmi.server.hostname", "127.0.0.1");
        if (args[0].equals("serve")) {
            serve();
            return;
        }
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Process other = new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"),
            "Nodes", "serve").redirectError(ProcessBuilder.Redirect.INHERIT).start();
        int port = new Scanner(other.getInputStream()).nextInt();
        Server server = (Server) LocateRegistry.getRegistry("127.0.0.1", port).lookup("server");
        int count = Integer.parseInt(args[0]);
        call(server, count); // a virtual machine needs longer to warm up
        System.out.printf("us %.3f%n", call(server, count));
        other.getOutputStream().close();
        other.waitFor();
        System.exit(0);
    }
}

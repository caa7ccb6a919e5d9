// Sends a component to the node. `fetch` tells nothing of how much is sent, so this is done in the older way.
import { ApiProblem, problemOf } from "../api/problem";

export interface UploadRequest {
  token: string | null;
  file: Blob;
  signal: AbortSignal;
  /** 0 to 1; 1 means that the node has it and works on it. */
  progress: (share: number) => void;
}

const TIMEOUT_MS = 600_000;

export function upload<T>({ token, file, signal, progress }: UploadRequest): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", "/api/v1/plugins");
    request.timeout = TIMEOUT_MS;
    request.setRequestHeader("Content-Type", "application/wasm");
    if (token) request.setRequestHeader("Authorization", `Bearer ${token}`);
    request.upload.onprogress = ({ loaded, total }) => progress(total > 0 ? loaded / total : 0);
    request.upload.onload = () => progress(1);
    request.onerror = () => reject(ApiProblem.network());
    request.ontimeout = () => reject(ApiProblem.timeout(TIMEOUT_MS));
    request.onabort = () => reject(new DOMException("stopped", "AbortError"));
    request.onload = () => {
      const { status, responseText } = request;
      if (status < 200 || status > 299) return void problemOf(new Response(responseText, { status })).then(reject);
      try {
        resolve(JSON.parse(responseText) as T);
      } catch {
        reject(new ApiProblem({ title: "The node answered something else than expected" }));
      }
    };
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

const BYTES_MAX = 256 * 1024 * 1024;

/** What is wrong with a file before anything is sent; null if it may be a component. */
export function fileProblem(begin: Uint8Array, size: number): string | null {
  if (size === 0) return "The file is empty.";
  if (size > BYTES_MAX) return "The file is larger than 256 MiB, which no node takes.";
  const is_wasm = begin[0] === 0 && begin[1] === 0x61 && begin[2] === 0x73 && begin[3] === 0x6d;
  if (!is_wasm) return "This is no WebAssembly. A component is a file that ends with .wasm; hivewire build makes one.";
  // Behind the four letters stand the version and, for components, a layer of 1.
  return begin[6] === 0 && begin[7] === 0 ? "This is a WebAssembly module, and no component: hivewire build makes a component of your worker." : null;
}

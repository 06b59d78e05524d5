/** Memory for the Vercel AI SDK (package `ai`): tools, language model middleware, and messages of `useChat`. */
export { vctxMemory } from "./memory.js";
export { loadMessages, saveMessages } from "./messages.js";
export { vctxTools } from "./tools.js";

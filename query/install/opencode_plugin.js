// Helix's plugin for OpenCode, written by `helix install opencode` and removed by `helix install opencode --remove`.
// It gives each event to `helix hook` as JSON on stdin, and adds what that answers. A failure adds nothing.
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { homedir } from "node:os"

const COMMAND = [] // helix install fills in the command and the store
const DEADLINE = 3000 // milliseconds; OpenCode itself waits for ever
const ACTED = /^(bash|shell|edit|write|patch|apply_patch|multiedit)$/

function ask(event, payload) {
  return new Promise((resolve) => {
    let text = ""
    try {
      const child = spawn(COMMAND[0], [...COMMAND.slice(1), event], { stdio: ["pipe", "pipe", "ignore"] })
      const timer = setTimeout(() => { child.kill(); resolve("") }, DEADLINE)
      child.on("error", () => { clearTimeout(timer); resolve("") })
      child.stdout.on("data", (part) => { text += part })
      child.on("close", () => {
        clearTimeout(timer)
        try { resolve(JSON.parse(text).hookSpecificOutput.additionalContext || "") } catch { resolve("") }
      })
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify({ hook_event_name: event, ...payload }))
    } catch { resolve("") }
  })
}

function nameArguments(args) {
  const given = args || {}
  const path = given.filePath || given.path
  return { ...given, ...(path ? { file_path: path } : {}), ...(given.patchText ? { command: given.patchText } : {}) }
}

function database() {
  const data = process.env.XDG_DATA_HOME || `${homedir()}/.local/share`
  const path = `${data}/opencode/opencode.db`
  return existsSync(path) ? path : ""
}

function hand(session, cwd) {
  const path = database()
  return path ? ask("Stop", { session_id: session, cwd, transcript_path: path }) : Promise.resolve("")
}

// OpenCode 1: hooks by name.
async function server({ directory }) {
  const cwd = directory, notes = new Map(), begun = new Set()
  return {
    "chat.message": async (input, output) => {
      const part = output.parts.find((one) => one.type === "text" && typeof one.text === "string")
      if (!part) return
      const session = input.sessionID
      const first = begun.has(session) ? "" : await ask("SessionStart", { session_id: session, cwd, source: "startup" })
      begun.add(session)
      const more = await ask("UserPromptSubmit", { session_id: session, cwd, prompt: part.text })
      part.text = [part.text, first, more].filter(Boolean).join("\n\n")
    },
    "tool.execute.before": async (input, output) => {
      if (!ACTED.test(input.tool)) return
      const known = await ask("PreToolUse", {
        session_id: input.sessionID, cwd, tool_name: input.tool, tool_input: nameArguments(output.args),
      })
      if (known) notes.set(input.callID, known) // text before a call would block it, so it goes with the result
    },
    "tool.execute.after": async (input, output) => {
      const before = notes.get(input.callID) || ""
      notes.delete(input.callID)
      if (!ACTED.test(input.tool) || typeof output.output !== "string") return
      const after = await ask("PostToolUse", {
        session_id: input.sessionID, cwd, tool_name: input.tool, tool_input: nameArguments(input.args),
        tool_response: { output: output.output, exit_code: output.metadata && output.metadata.exit },
      })
      output.output = [output.output, before, after].filter(Boolean).join("\n\n")
    },
    event: async ({ event }) => {
      if (event.type === "session.idle") await hand(event.properties && event.properties.sessionID, cwd)
    },
  }
}

// OpenCode 2: hooks by domain.
async function setup(ctx) {
  const cwd = process.cwd(), notes = new Map()
  await ctx.tool.hook("execute.before", async (event) => {
    if (!ACTED.test(event.tool)) return
    const known = await ask("PreToolUse", {
      session_id: event.sessionID, cwd, tool_name: event.tool, tool_input: nameArguments(event.input),
    })
    if (known) notes.set(event.id, known)
  })
  await ctx.tool.hook("execute.after", async (event) => {
    const before = notes.get(event.id) || ""
    notes.delete(event.id)
    if (!ACTED.test(event.tool)) return
    const failed = event.status === "error"
    const result = event.result || {}
    const text = failed ? String((event.error && event.error.message) || event.error || "")
      : typeof result.content === "string" ? result.content
      : (result.content || []).map((part) => part.text || "").join("\n")
    const after = await ask(failed ? "PostToolUseFailure" : "PostToolUse", {
      session_id: event.sessionID, cwd, tool_name: event.tool, tool_input: nameArguments(event.input),
      ...(failed ? { error: text } : { tool_response: { output: text, exit_code: result.metadata && result.metadata.exit } }),
    })
    const more = [before, after].filter(Boolean).join("\n\n")
    if (!more || failed) return
    if (typeof result.content === "string") result.content += `\n\n${more}`
    else result.content = [...(result.content || []), { type: "text", text: more }]
  })
}

export default { id: "helix", server, setup }

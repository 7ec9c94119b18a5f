"use strict";
// The chat page of `troupe serve --web`: a conversation by /v1/chat/completions, streamed.

const at = id => document.getElementById(id);
let messages = [];
let running = null;  // AbortController of the current answer

function show(kind, text) {
  const turn = document.createElement("div");
  turn.className = `turn ${kind}`;
  turn.textContent = text;
  at("turns").append(turn);
  turn.scrollIntoView();
  return turn;
}

function headers() {
  const key = at("key").value;
  return {"Content-Type": "application/json", ...(key ? {Authorization: `Bearer ${key}`} : {})};
}

async function* events(body) {
  const decoder = new TextDecoder();
  let kept = "";
  const reader = body.getReader();
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    kept += decoder.decode(value, {stream: true});
    const parts = kept.split("\n\n");
    kept = parts.pop();
    for (const part of parts)
      if (part.startsWith("data: ") && part !== "data: [DONE]") yield JSON.parse(part.slice(6));
  }
}

async function answer(turn) {
  const plain = at("plain").checked;
  const asked = {stream: true, stream_options: {include_usage: true}, temperature: Number(at("temperature").value),
                 max_tokens: Number(at("tokens").value)};
  if (plain) asked.prompt = messages.map(x => x.content).join("");
  else asked.messages = messages;
  const from = await fetch(plain ? "/v1/completions" : "/v1/chat/completions",
                           {method: "POST", headers: headers(), body: JSON.stringify(asked), signal: running.signal});
  if (!from.ok) throw new Error((await from.json()).error.message);
  for await (const event of events(from.body)) {
    if (event.error) throw new Error(event.error.message);
    const choice = event.choices[0];
    if (choice) turn.textContent += (plain ? choice.text : choice.delta.content) ?? "";
    if (event.usage) show("note", `${event.usage.prompt_tokens} + ${event.usage.completion_tokens} tokens`);
    turn.scrollIntoView({block: "end"});
  }
}

async function send() {
  const words = at("words").value;
  if (!words || running) return;
  at("words").value = "";
  messages.push({role: "user", content: words});
  show("user", words);
  const turn = show("assistant", "");
  running = new AbortController();
  at("send").textContent = "Stop";
  try {
    await answer(turn);
  } catch (failure) {
    if (failure.name !== "AbortError") show("error", failure.message);
  }
  if (turn.textContent) messages.push({role: "assistant", content: turn.textContent});
  else messages.pop();
  running = null;
  at("send").textContent = "Send";
}

at("form").addEventListener("submit", event => {
  event.preventDefault();
  if (running) running.abort();
  else send();
});
at("words").addEventListener("keydown", event => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
at("clear").addEventListener("click", () => {
  if (running) running.abort();
  messages = [];
  at("turns").replaceChildren();
});
at("key").addEventListener("change", name);

async function name() {
  const from = await fetch("/v1/models", {headers: headers()});
  if (from.ok) at("model").textContent = (await from.json()).data[0].id;
}
name();

// Fuzzes schedules as Lua scripts: each script ends with a plan or a refusal.

#include "runtime/schedule/check.hpp"
#include "runtime/script/schedule_script.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

constexpr script_limits small{100'000, std::size_t{1} << 20};
constexpr int ranks = 2, microbatches = 3;

plan plan_of(const schedule_script& script) {
  return script.is_behaviour() ? rehearse(script.behaviours(), ranks, microbatches)
                               : script.make_plan(ranks, microbatches);
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {R"lua(
function plan(rank, ranks, chunks, microbatches)
  local row = {}
  for m = 0, microbatches - 1 do row[#row + 1] = { "F", rank, m } end
  for m = 0, microbatches - 1 do row[#row + 1] = rank .. "B" .. m end
  return row
end
)lua",
          R"lua(
chunks_per_rank = 2
function placement(stage, ranks) return stage < ranks and stage or 2 * ranks - 1 - stage end
function plan(rank) return rank == 0 and "0F0, 3F0 (0F1;3B0)" or { { kind = "F", stage = 1, microbatch = 0 } } end
)lua",
          R"lua(
local asked = 0
function next(state)
  asked = asked + 1
  local best
  for i, x in ipairs(state.ready) do
    if not best or x.kind == "I" or state.done[x.stage].F > 2 then best = x end
  end
  print(asked, best and best.text)
  return best
end
)lua",
          R"lua(
local words = { a = 1, [2] = "b", [true] = 0.5 }
local list = {}
for key, value in pairs(words) do list[#list + 1] = tostring(key) .. value end
table.sort(list, function(x, y) return x < y end)
function plan() return string.format("%dF%d", 0, #table.concat(list, ",") % 3):rep(2, " ") end
)lua"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"while true do end ",
          "..",
          "('x'):rep(1e5)",
          "1e308",
          "-1",
          "//0",
          "%0",
          "goto l ::l:: ",
          "function f() return f() end f() ",
          "nil",
          "state.ready",
          "string.format('%99d', 1)",
          "table.unpack({}, 1, 1e6)",
          "{{{{{{",
          "))))",
          "[[",
          "--[[",
          "\"",
          "\\u{7FFFFFFF}",
          "<close>",
          "<const>",
          "_G",
          "_ENV",
          "math.mininteger",
          "string.rep",
          "table.concat",
          "pairs(_G)",
          "select(-1)",
          "chunks_per_rank = 64 ",
          "error(nil)",
          "assert(nil, {})",
          "\x1bLua",
          "#"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepted([&] {
    const schedule_script script("fuzz.lua", std::string(fuzz::text_of(data, size)), small);
    const auto first = plan_of(script);
    validate(first);
    fuzz::require(plan_of(script) == first, "a script always gives the same plan");
  });
  return 0;
}

#include "runtime/script/schedule_script.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/check.hpp"
#include "runtime/schedule/csv.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

constexpr script_limits small{1'000'000, std::size_t{4} << 20};

plan made(const std::string& text, int ranks = 2, int microbatches = 2) {
  return schedule_script("mine.lua", text, small).make_plan(ranks, microbatches);
}

plan decided(const std::string& text, int ranks = 2, int microbatches = 2) {
  return rehearse(schedule_script("mine.lua", text, small).behaviours(), ranks, microbatches);
}

/// The error text of a script.
template <class Run>
std::string said(Run&& run) {
  try {
    run();
  } catch (const input_error& e) {
    return e.what();
  }
  return "nothing";
}

std::string refusal(const std::string& text) {
  return said([&] { made(text); });
}

/// The error of an expression inside plan().
std::string refusal_of(const std::string& expression) {
  return refusal("function plan()\n  local x = " + expression + "\n  return {}\nend");
}

}  // namespace

TEST_CASE("a row can be a string, a list of strings or a list of tables", "[script]") {
  const auto as_text = made(R"(
    function plan(rank, ranks, chunks, microbatches)
      local s = tostring(rank)
      return s .. "F0, " .. s .. "F1 " .. s .. "B0\n" .. s .. "B1"
    end)");
  CHECK(to_csv(as_text) == "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");
  CHECK(as_text.name == "mine.lua");
  CHECK(as_text.chunks == 2);
  CHECK(as_text.microbatches == 2);
  CHECK(validate(as_text).empty());
  const auto as_list = made(R"(
    function plan(rank)
      local s = tostring(rank)
      return { s .. "F0", {"F", rank, 1}, { kind = "B", stage = rank, microbatch = 0 }, s .. "B1" }
    end)");
  CHECK(as_list == as_text);
}

TEST_CASE("a script can write pairs", "[script]") {
  const auto x = made("function plan() return {'0F0', '(0F1;0B0)', '0B1'} end", 1, 2);
  REQUIRE(x.ranks[0].size() == 4);
  CHECK(x.ranks[0][1].with_next);
  CHECK_FALSE(x.ranks[0][2].with_next);
}

TEST_CASE("a script sets the chunks per rank and their placement", "[script]") {
  const std::string text = R"(
    chunks_per_rank = 2
    function placement(stage, ranks)
      if stage < ranks then return stage end
      return 2 * ranks - 1 - stage
    end
    function plan(rank, ranks, chunks, microbatches)
      assert(chunks == 4 and ranks == 2 and microbatches == 2)
      return {}
    end)";
  const auto x = made(text);
  CHECK(x.chunks == 4);
  CHECK(x.placement == placed_in_v(2));
  const auto factory = schedule_script("v.lua", R"(
    chunks_per_rank = 2
    function placement(stage, ranks) return stage < ranks and stage or 2 * ranks - 1 - stage end
    function next(state) return state.ready[#state.ready] end)");
  const auto y = rehearse(factory.behaviours(), 2, 3);
  CHECK(y.placement == placed_in_v(2));
  CHECK(validate(y).empty());
}

TEST_CASE("a behaviour answers with a ready action or its text, and keeps its variables",
          "[script]") {
  const auto x = decided(R"(
    local asked = 0
    function next(state)
      asked = asked + 1
      if asked % 2 == 0 then return state.ready[1] and state.ready[1].text end
      return state.ready[1]
    end)");
  CHECK(validate(x).empty());
  CHECK(x.name == "mine.lua");
}

TEST_CASE("a behaviour sees the state of its rank", "[script]") {
  const auto x = decided(R"(
    function next(state)
      local stage = state.hosted[1]
      assert(stage == state.rank and #state.hosted == 1)
      assert(state.ranks == 2 and state.chunks == 2 and state.microbatches == 2)
      local done = state.done[stage]
      assert(state.held == done.F - done.I)
      for _, x in ipairs(state.ready) do
        assert(x.stage == stage and x.text == stage .. x.kind .. x.microbatch)
        assert(x.microbatch == done[x.kind])
      end
      return state.ready[1]
    end)");
  CHECK(validate(x).empty());
}

TEST_CASE("an error in a script is reported with file, line and reason", "[script]") {
  CHECK(refusal("function plan(\n  rank,\n") == "mine.lua:3: <name> or '...' expected near <eof>");
  CHECK(refusal("function plan(rank)\n  local x\n  return x.y\nend")
        == "mine.lua:3: attempt to index a nil value (local 'x')");
  CHECK(refusal("\n\nerror('no good')") == "mine.lua:3: no good");
  CHECK(refusal("\nerror('no good', 0)") == "mine.lua:2: no good");
  CHECK(refusal("error({})") == "mine.lua:1: error() with a table: use a text");
  CHECK(refusal("error()") == "mine.lua:1: error() without a reason");
  CHECK(refusal("assert(false)") == "mine.lua:1: assertion failed!");
  CHECK(refusal_of("('x'):byte({})")
        == "mine.lua:2: bad argument #2 to 'string.byte' (number expected, got table)");
  CHECK(refusal("\x1bLua") == "mine.lua: attempt to load a binary chunk (mode is 't')");
  CHECK(refusal("x = 1") == "mine.lua: defines neither of plan(rank, ranks, chunks, microbatches) "
                            "and next(state); a schedule defines exactly one of them");
  CHECK_THAT(refusal("function plan() end function next() end"), ContainsSubstring("both"));
  CHECK(refusal("plan = 3") == "mine.lua: 'plan' is a number; it must be a function");
  const auto limit = refusal("error(string.rep('x', 5000))");
  CHECK(limit.size() < 600);
  CHECK_THAT(refusal("error('a\\27[2Jb\\nc')"), ContainsSubstring("a [2Jb c"));
}

TEST_CASE("SCRIPT-1, SCRIPT-2: a script defines the functions that are called", "[script]") {
  const schedule_script plans("mine.lua", "function plan() return {} end", small);
  CHECK_BREAKS("SCRIPT-2", plans.behaviours());
  const schedule_script decides("mine.lua", "function next() return nil end", small);
  CHECK_BREAKS("SCRIPT-1", decides.make_plan(2, 2));
}

TEST_CASE("an invalid row is reported with rank, position and what was expected", "[script]") {
  const auto row = [](const std::string& returned) {
    return refusal("function plan() return " + returned + " end");
  };
  CHECK(row("nil")
        == "mine.lua: plan() for rank 0 of 2: it returned nil; expected a text as \"0F0 0B0\", or "
           "a list of \"0F0\" or {\"F\", stage, microbatch}");
  CHECK(row("{'0F0', '0X1'}")
        == "mine.lua: plan() for rank 0 of 2: action 2: \"0X1\" is not an action: there is no action "
           "'X'; there are F, B, I, W, R and, in lowered plans, SEND_F, RECV_F, SEND_B, RECV_B and "
           "REDUCE_GRAD");
  CHECK_THAT(row("'0F0 0F1 0Q'"), ContainsSubstring("action 3: \"0Q\" is not an action"));
  for (const char* text : {"'F0'",
                           "'0F'",
                           "'0F-1'",
                           "'(0F1'",
                           "'(0F1)'",
                           "'(0F1;)'",
                           "'()'",
                           "'a0F1'",
                           "'0F1000001'",
                           "'0F99999999999999'",
                           "'0SEND_F1'",
                           "'0I0.1'",
                           "'0R1'"})
    CHECK_THAT(row(text), ContainsSubstring("action 1: "));
  CHECK_THAT(row("{17}"), ContainsSubstring("action 1: 17 is not an action"));
  CHECK_THAT(row("{{'X', 0, 0}}"), ContainsSubstring("a table whose kind is \"X\""));
  CHECK_THAT(row("{{'F', 0}}"), ContainsSubstring("without stage and micro-batch"));
  CHECK_THAT(row("{{'F', 0.5, 0}}"), ContainsSubstring("without stage and micro-batch"));
  CHECK_THAT(row("{{'F', -1, 0}}"), ContainsSubstring("without stage and micro-batch"));
  CHECK_THAT(row("{first = '0F0'}"), ContainsSubstring("a table with the key \"first\""));
  CHECK(row("{}") == "nothing");  // an empty row is valid here; the checker decides
}

TEST_CASE("invalid chunks and placements are refused", "[script]") {
  const std::string plan = "function plan() return {} end\n";
  CHECK_THAT(refusal(plan + "chunks_per_rank = 0"), ContainsSubstring("chunks_per_rank is 0"));
  CHECK_THAT(refusal(plan + "chunks_per_rank = '2'"), ContainsSubstring("is \"2\""));
  CHECK_THAT(refusal(plan + "chunks_per_rank = 1.5"), ContainsSubstring("is 1.5"));
  CHECK_THAT(refusal(plan + "placement = 1"), ContainsSubstring("'placement' is a number"));
  CHECK(refusal(plan + "function placement(stage, ranks) return stage + 1 end")
        == "mine.lua: placement(1, 2) is 2; it must be a rank, from 0 to 1");
  CHECK_THAT(refusal(plan + "\nfunction placement() return nil + 1 end"),
             StartsWith("mine.lua:3: attempt to perform arithmetic"));
  CHECK_THAT(said([&] { schedule_script("mine.lua", plan).make_plan(0, 1); }),
             ContainsSubstring("0 ranks"));
}

TEST_CASE("the error of an invalid answer lists the ready actions", "[script]") {
  const auto answer = [](const std::string& returned) {
    return said([&] { decided("function next(state) return " + returned + " end"); });
  };
  CHECK(answer("42")
        == "mine.lua: next() on rank 0 of 2 answered 42; expected one of state.ready (0F0), its "
           "text, or nil to wait");
  CHECK_THAT(answer("'0F0 0F1'"), ContainsSubstring("answered \"0F0 0F1\""));
  CHECK_THAT(answer("''"), ContainsSubstring("answered \"\""));
  CHECK_THAT(answer("state.ready"), ContainsSubstring("answered a table"));
  CHECK(answer("'0I0'")
        == "mine.lua: rank 0 of 2 chose 0I0, which cannot run now: 0F0 comes first; "
           "ready: 0F0");
  CHECK_THAT(answer("state.ready[1].x.y"), StartsWith("mine.lua:1: attempt to index a nil value"));
  CHECK_THAT(answer("nil"), ContainsSubstring("mine.lua: all ranks wait, after 0 of 12 actions"));
}

TEST_CASE("a script has no access to files, clocks or other code", "[script]") {
  CHECK(refusal_of("io.open('/etc/passwd')")
        == "mine.lua:2: io.open is not for a schedule script: it has no files");
  for (const char* expression : {"os.time()",
                                 "os.execute('true')",
                                 "os.getenv('HOME')",
                                 "io.popen('true')",
                                 "package.loadlib('x', 'y')",
                                 "require('x')",
                                 "load('return 1')",
                                 "loadfile('x')",
                                 "dofile('x')",
                                 "debug.getinfo(1)",
                                 "debug.sethook()",
                                 "collectgarbage()",
                                 "coroutine.create(print)",
                                 "pcall(print)",
                                 "xpcall(print, print)",
                                 "getmetatable('')",
                                 "setmetatable({}, {})",
                                 "rawset({}, 1, 2)",
                                 "math.random()",
                                 "string.gsub('a', 'b', 'c')",
                                 "('a'):find('b')",
                                 "('a'):match('b')",
                                 "table.move({}, 1, 1e15, 2)",
                                 "utf8.char(1)"})
    CHECK_THAT(refusal_of(expression), ContainsSubstring("is not for a schedule script"));
  // Missing functions are nil.
  for (const char* expression : {"string.dump(print)", "string.pack('i', 1)", "warn('x')"})
    CHECK_THAT(refusal_of(expression), ContainsSubstring("attempt to call a nil value"));
}

TEST_CASE("SCRIPT-BOUND: an endless script is stopped", "[script]") {
  CHECK(refusal("\nwhile true do end")
        == "mine.lua:2: the script itself was stopped after the 1000000 instructions that a call "
           "may execute: look for an endless loop");
  CHECK(refusal("function plan()\n  local function f() return f() end\n  f()\nend")
        == "mine.lua:2: plan() for rank 0 was stopped after the 1000000 instructions that a call "
           "may execute: look for an endless loop");
  CHECK_THAT(said([&] { decided("function next(s)\n  for i = 1, 1e12 do end\nend"); }),
             StartsWith("mine.lua:2: next() on rank 0 was stopped"));
  // Expensive single instructions count as many.
  for (const char* body : {"local t = {} for i = 1, 1e5 do table.insert(t, 1, i) end",
                           "local s = ('x'):rep(2e5) for i = 1, 1e6 do s:upper() end",
                           "local s = ('x'):rep(2e5) for i = 1, 1e6 do local y = s .. i end",
                           "for i = 1, 1e6 do table.concat({('x'):rep(1e5), ('y'):rep(1e5)}) end",
                           "for i = 1, 1e5 do table.sort({3, 1, 2}) end",
                           "for i = 1, 1e5 do print(i) end",
                           "string.rep('', 1e18) for i = 1, 1e6 do string.rep('', 1e18) end"})
    CHECK_THAT(refusal(body), ContainsSubstring("was stopped after"));
}

TEST_CASE("SCRIPT-BOUND: a script has bounded memory", "[script]") {
  CHECK(refusal("local t = {}\nfor i = 1, 1e9 do t[i] = i end")
        == "mine.lua:2: the script itself needs more than the 4096 KiB of memory that a schedule "
           "script has");
  CHECK_THAT(refusal("local t = {}\nwhile true do t = {t, t, t, t, t, t, t, t} end"),
             ContainsSubstring("of memory"));
  CHECK(refusal("local s = 'x'\nwhile true do\n  s = s .. s\nend")
        == "mine.lua:3: the script itself makes a text of more than 256 KiB; return a long row "
           "as a list");
  CHECK(refusal("string.rep('x', 1e9)")
        == "mine.lua:1: string.rep makes a text of more than 256 KiB");
  CHECK(refusal("string.rep('x', 1e300)")
        == "mine.lua:1: string.rep makes a text of more than 256 KiB");
  CHECK_THAT(
      refusal("local function f(x) return 1 + f(x) end f(1)"),
      ContainsSubstring("too many values at once") || ContainsSubstring("was stopped after"));
  CHECK_THAT(said([&] {
               schedule_script("mine.lua", "function plan() end", {1000000, 100});
             }),
             ContainsSubstring("needs more than"));
  CHECK_THAT(refusal("x = " + std::string(300, '(') + "1" + std::string(300, ')')),
             ContainsSubstring("overflow"));
}

TEST_CASE("SCRIPT-BOUND: an expensive instruction counts as many cheap ones", "[script]") {
  // Each script ends after at most 100,000 of its own instructions; the limit is a million.
  const std::string two = "local a, b = ('x'):rep(2e5) .. 'y', ('x'):rep(2e5) .. 'z' ";
  const std::string many = "local function f(...) local n = 0 for i = 1, 1e4 do ";
  const std::string call = " end end f(table.unpack(t)) ";
  const std::string filled = "local t = {} for i = 1, 4000 do t[i] = i end ";
  for (const auto& body :
       {two + "local n = 0 for i = 1, 1e4 do if a < b then n = n + 1 end end",
        two + "for i = 1, 1e4 do local same = a == b end",
        filled + many + "n = select('#', ...)" + call,
        filled + many + "n = math.max(...)" + call,
        filled + many + "n = math.min(...)" + call,
        filled + many + "assert(...)" + call,
        filled + many + "f2 = {...} f2 = nil" + call,
        std::string("for i = 1, 1e4 do table.unpack({}, 1, 4000) end"),
        std::string("local t = {} for i = 1, 2e4 do t[i] = i end for i = 2e4, 1, -1 do "
                    "t[i] = nil end for i = 1, 1e4 do pairs(t) end")})
    CHECK_THAT(refusal(body), ContainsSubstring("was stopped after"));
  // Near the memory limit, Lua's garbage collector runs for a few bytes.
  CHECK_THAT(refusal("local t = {} for i = 1, 240000 do t[i] = i end\n"
                     "for i = 1, 1e4 do local x = ('y'):rep(9e3) end"),
             ContainsSubstring("was stopped after") || ContainsSubstring("of memory"));
  CHECK_THAT(refusal("local t = {} table.unpack(t, 1, 1e5)"),
             ContainsSubstring("has too many values at once"));
  // A list that contains the same long text many times.
  CHECK_THAT(refusal("local s = ('0F0 '):rep(5e4) local t = {} for i = 1, 1000 do t[i] = s end "
                     "function plan() return t end"),
             ContainsSubstring("was stopped after"));
}

TEST_CASE("SCRIPT-BOUND: a script that Lua would parse for too long is refused", "[script]") {
  std::string jumps = "x = a";
  while (jumps.size() <= (std::size_t{64} << 10))
    jumps += " and a";
  CHECK_THAT(refusal(jumps), ContainsSubstring("a schedule script has at most 65536"));
  for (const char* zero :
       {"x = '\\0'", "x = '\\00'", "x = '\\x00'", "x = '\\u{0}'", "x = '\\\\\\0001'"})
    CHECK_THAT(refusal(zero), ContainsSubstring("has a byte 0"));
  CHECK_THAT(refusal(std::string("x = '\0'", 7)), ContainsSubstring("has a byte 0"));
  CHECK_THAT(refusal("string.char(65, 0)"), ContainsSubstring("no byte 0"));
  CHECK_THAT(refusal("string.format('%c', 0)"), ContainsSubstring("no byte 0"));
  const std::string neither = "defines neither";
  for (const char* none :
       {"x = '\\10'", "x = '\\\\0'", "x = '\\x01'", "x = '\\u{10}'", "x = '\\n0'"})
    CHECK_THAT(refusal(none), ContainsSubstring(neither));
}

TEST_CASE("SCRIPT-SAME: a script gives the same answer every time", "[script]") {
  const std::string text = R"(
    function plan(rank, ranks, chunks, microbatches)
      local keys, out = {}, {}
      for i = 1, 200 do keys["k" .. i] = i end
      keys[3], keys[1], keys[true] = "c", "a", "t"
      local order = {}
      for key in pairs(keys) do order[#order + 1] = tostring(key) end
      assert(order[1] == "1" and order[2] == "3" and order[3] == "k1" and order[#order] == "true")
      local list = {}
      for i = 1, 300 do list[i] = { i % 7, i } end
      table.sort(list, function(a, b) return a[1] < b[1] end)
      for i = 2, 300 do
        assert(list[i - 1][1] < list[i][1] or list[i - 1][2] < list[i][2])
      end
      assert(tostring({}) == "table" and tostring(print) == "function")
      return {}
    end)";
  CHECK(refusal(text) == "nothing");
  CHECK_THAT(refusal_of("string.format('%s', {})"), ContainsSubstring("cannot write a table"));
  CHECK_THAT(refusal_of("string.format('%%%5p', 'x')"), ContainsSubstring("no %p"));
  CHECK(refusal_of("string.format('%%p %d', 3)") == "nothing");
  CHECK_THAT(refusal("for k in pairs({[{}] = 1}) do end"), ContainsSubstring("here is a table"));
  CHECK(refusal("table.sort({1, 'a'})") == "mine.lua:1: attempt to compare string with number");
}

TEST_CASE("each rank has its own interpreter", "[script]") {
  CHECK(refusal("calls = 0\nfunction plan() calls = calls + 1 assert(calls == 1) return {} end")
        == "nothing");
}

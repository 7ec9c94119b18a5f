#include "runtime/script/schedule_script.hpp"

#include "runtime/core/error.hpp"
#include "runtime/script/interpreter.hpp"
#include "runtime/script/lua_actions.hpp"

#include <lua.hpp>

namespace troupe::runtime {
namespace {

constexpr int most_chunks_per_rank = 64;

void push(lua_State* lua, std::initializer_list<int> numbers) {
  for (const int x : numbers)
    lua_pushinteger(lua, x);
}

bool is_function(lua_State* lua, const char* name, const std::string& file) {
  const int type = lua_getglobal(lua, name);
  if (type != LUA_TNIL && type != LUA_TFUNCTION)
    throw input_error(
        "{}: '{}' is a {}; it must be a function", file, name, luaL_typename(lua, -1));
  lua_pop(lua, 1);
  return type == LUA_TFUNCTION;
}

int defined_chunks(lua_State* lua, const std::string& file) {
  if (lua_getglobal(lua, "chunks_per_rank") == LUA_TNIL)
    return 1;
  int whole = 0;
  const auto out = lua_tointegerx(lua, -1, &whole);
  if (lua_type(lua, -1) != LUA_TNUMBER || !whole || out < 1 || out > most_chunks_per_rank)
    throw input_error("{}: chunks_per_rank is {}; it must be a whole number from 1 to {}",
                      file,
                      shown(lua, -1),
                      most_chunks_per_rank);
  return int(out);
}

std::vector<int> placement_by(interpreter& in, const std::string& file, int ranks, int chunks) {
  std::vector<int> out;
  in.run("placement()", [&](lua_State* lua) {
    for (int c = 0; c < chunks; ++c) {
      lua_getglobal(lua, "placement");
      push(lua, {c, ranks});
      lua_call(lua, 2, 1);
      int whole = 0;
      const auto rank = lua_tointegerx(lua, -1, &whole);
      if (lua_type(lua, -1) != LUA_TNUMBER || !whole || rank < 0 || rank >= ranks)
        throw input_error("{}: placement({}, {}) is {}; it must be a rank, from 0 to {}",
                          file,
                          c,
                          ranks,
                          shown(lua, -1),
                          ranks - 1);
      out.push_back(int(rank));
      lua_settop(lua, 0);
    }
  });
  return out;
}

/// A behaviour that calls next() of the script.
class scripted : public behaviour {
 public:
  scripted(const std::string& file, const std::string& text, const script_limits& limits, int rank)
      : file_(file), what_(fmt::format("next() on rank {}", rank)), in_(file, text, limits) {}

  std::optional<action> next(const stage_view& now) override {
    std::optional<action> out;
    in_.run(what_, [&](lua_State* lua) {
      lua_getglobal(lua, "next");
      push_state(lua, now);
      lua_call(lua, 1, 1);
      out = answer(lua, now);
    });
    return out;
  }

 private:
  std::optional<action> answer(lua_State* lua, const stage_view& now) const {
    if (lua_isnil(lua, -1))
      return {};
    std::vector<action> out;
    if (const auto why = read_actions(lua, -1, out); !why.empty() || out.size() != 1)
      throw input_error(
          "{}: {} of {} answered {}; expected one of state.ready ({}), its text, or "
          "nil to wait",
          file_,
          what_,
          now.ranks,
          shown(lua, -1),
          ready(now));
    return out.front();
  }

  static std::string ready(const stage_view& now) {
    std::string out;
    for (const auto& x : now.ready)
      out += (out.empty() ? "" : " ") + to_string(x);
    return out.empty() ? "nothing now" : out;
  }

  std::string file_, what_;
  interpreter in_;
};

}  // namespace

schedule_script::schedule_script(std::string file, std::string text, script_limits limits)
    : file_(std::move(file)), text_(std::move(text)), limits_(limits) {
  interpreter in(file_, text_, limits_, false);
  in.run("the script itself", [&](lua_State* lua) {
    behaviour_ = is_function(lua, "next", file_);
    if (behaviour_ == is_function(lua, "plan", file_))
      throw input_error(
          "{}: defines {} of plan(rank, ranks, chunks, microbatches) and "
          "next(state); a schedule defines exactly one of them",
          file_,
          behaviour_ ? "both" : "neither");
    places_ = is_function(lua, "placement", file_);
    chunks_per_rank_ = defined_chunks(lua, file_);
  });
}

plan schedule_script::make_plan(int ranks, int microbatches) const {
  ensure(!behaviour_, "SCRIPT-1: only a script with plan() makes a plan");
  if (ranks < 1 || microbatches < 1)
    throw input_error(
        "{}: {} ranks and {} micro-batches: each must be 1 or more", file_, ranks, microbatches);
  plan out;
  out.name = file_;
  out.chunks = ranks * chunks_per_rank_;
  out.microbatches = microbatches;
  for (int r = 0; r < ranks; ++r) {
    interpreter in(file_, text_, limits_);
    if (r == 0)
      out.placement = places_ ? placement_by(in, file_, ranks, out.chunks)
                              : placed_in_turn(ranks, chunks_per_rank_);
    auto& row = out.ranks.emplace_back();
    const auto what = fmt::format("plan() for rank {}", r);
    in.run(what, [&](lua_State* lua) {
      lua_getglobal(lua, "plan");
      push(lua, {r, ranks, out.chunks, microbatches});
      lua_call(lua, 4, 1);
      if (const auto why = read_row(lua, -1, row); !why.empty())
        throw input_error("{}: {} of {}: {}", file_, what, ranks, why);
    });
  }
  return out;
}

behaviour_factory schedule_script::behaviours() const {
  ensure(behaviour_, "SCRIPT-2: only a script with next() is a behaviour");
  behaviour_factory out;
  out.name = file_;
  out.chunks_per_rank = chunks_per_rank_;
  out.make = [file = file_, text = text_, limits = limits_](int rank, int, int, int) {
    return std::make_unique<scripted>(file, text, limits, rank);
  };
  if (places_)
    out.placement = [file = file_, text = text_, limits = limits_](int ranks, int chunks) {
      interpreter in(file, text, limits, false);
      return placement_by(in, file, ranks, chunks);
    };
  return out;
}

}  // namespace troupe::runtime

// Plants a death of each actor and lane, at each moment of a step, in each arrangement. Each run
// must give the results of the undisturbed run.
//
//   deaths             a selection: each actor dies once, and each moment occurs (run by CI)
//   deaths --all       all actors at all moments
//   deaths --how HOW   throw (default), hang or wrong-bits; only actors that can fail this way
//   deaths --only TEXT only arrangements with TEXT in their name
//   deaths --who TEXT  only actors with TEXT in their name
//   deaths --each N    only the first of every N deaths: for sanitizers
//   deaths --stop      stops at the first failure
//
// recovery_judge.hpp checks each death. A cell is "ok", "FAIL", or "." if no death was planted.

#include "runtime/core/log.hpp"
#include "tests/matrix/mortals.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

using namespace troupe;

namespace {

struct wish {
  bool all = false, stop = false;
  std::size_t each = 1;
  std::string how = "throw", only, who;
};

std::optional<wish> wish_from(int argc, char** argv) {
  wish out;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--all")
      out.all = true;
    else if (word == "--stop")
      out.stop = true;
    else if (word == "--how" && has_value)
      out.how = argv[++i];
    else if (word == "--only" && has_value)
      out.only = argv[++i];
    else if (word == "--who" && has_value)
      out.who = argv[++i];
    else if (word == "--each" && has_value && std::atoi(argv[i + 1]) > 0)
      out.each = std::size_t(std::atoi(argv[++i]));
    else
      return std::nullopt;
  }
  if (out.how != "throw" && out.how != "hang" && out.how != "wrong-bits")
    return std::nullopt;
  return out;
}

class table {
 public:
  explicit table(wish what) : wish_(std::move(what)) {}

  bool is_over() const { return wish_.stop && failed_ > 0; }

  void judge(std::size_t number, const tests::arrangement& what) {
    if (what.name.find(wish_.only) == std::string::npos)
      return;
    const matrix::mortal_run run(what);
    std::printf("\n%s\n%-16s", what.name.c_str(), "");
    for (const auto moment : runtime::moment_names())
      std::printf(" %-8.8s", std::string(moment).c_str());
    std::printf("\n");
    std::vector<std::string> wrong;
    add(run.look(), "undisturbed", wrong);
    const auto whos = matrix::mortals(what.job);
    for (std::size_t i = 0; i < whos.size() && !is_over(); ++i)
      if (whos[i].find(wish_.who) != std::string::npos)
        judge_row(run, number, i, whos, wrong);
    for (const auto& x : wrong)
      std::printf("  %s\n", x.c_str());
    std::fflush(stdout);
  }

  int finish() const {
    std::printf("\n%zu deaths, %zu failed\n", done_, failed_);
    return failed_ == 0 && done_ > 0 ? 0 : 1;
  }

 private:
  bool add(const tests::sentences& found, const std::string& where, std::vector<std::string>& to) {
    for (const auto& x : found)
      to.push_back(where + ": " + x);
    failed_ += found.empty() ? 0 : 1;
    return found.empty();
  }

  void judge_row(const matrix::mortal_run& run,
                 std::size_t number,
                 std::size_t who,
                 const std::vector<std::string>& whos,
                 std::vector<std::string>& wrong) {
    std::printf("%-16s", whos[who].c_str());
    for (std::size_t m = 0; m < runtime::moment_names().size(); ++m) {
      const auto death
          = matrix::death_of(whos[who], runtime::moment_names()[m], wish_.how, run.first());
      const bool wanted = wish_.all || matrix::is_selected(number, whos.size(), who, m);
      const char* cell = ".";
      if (wanted && !is_over() && matrix::may_die(run.what().job, death)
          && seen_++ % wish_.each == 0) {
        ++done_;
        cell = add(run.look(death), death, wrong) ? "ok" : "FAIL";
      }
      std::printf(" %-8s", cell);
    }
    std::printf("\n");
  }

  wish wish_;
  std::size_t done_ = 0, failed_ = 0, seen_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const auto what = wish_from(argc, argv);
  if (!what) {
    std::fprintf(stderr,
                 "usage: deaths [--all] [--how throw|hang|wrong-bits] [--only TEXT] [--who TEXT] "
                 "[--each N] [--stop]\n");
    return 2;
  }
  runtime::set_log_level(runtime::severity::error);
  const tests::scratch_folder folder(tests::place_in_memory());
  table told(*what);
  const auto all = matrix::mortal_arrangements(folder);
  for (std::size_t i = 0; i < all.size() && !told.is_over(); ++i)
    told.judge(i, all[i]);
  return told.finish();
}

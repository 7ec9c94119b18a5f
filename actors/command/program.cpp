#include "actors/command/commands.hpp"
#include "actors/command/print.hpp"
#include "actors/command/setting_names.hpp"
#include "actors/job/part_commands.hpp"
#include "actors/job/run.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/log_words.hpp"
#include "runtime/core/terminal_text.hpp"
#include "runtime/job/build.hpp"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>

namespace troupe::command {
namespace {

constexpr int users_fault = 2, our_fault = 3;

void print_error(const std::string& text) {
  std::fflush(stdout);
  const bool coloured = runtime::errors_are_coloured();
  std::fprintf(stderr,
               "troupe: %serror%s: %s\n",
               coloured ? "\x1b[31m\x1b[1m" : "",
               coloured ? "\x1b[m" : "",
               runtime::message_text(with_flags(text)).c_str());
}

int report_internal_error(const char* what) {
  print_error(fmt::format(
      "{}\n"
      "  This is an internal error of Troupe {}. Please report it with the command line.",
      what,
      TROUPE_VERSION));
  return our_fault;
}

/// Throws if standard output could not be written: a full disk, a closed pipe.
int flushed(int exit_code) {
  const bool lost_before = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !lost_before)
    return exit_code;
  if (!lost_before)
    throw runtime::io_error("cannot write standard output: {}", runtime::system_message(errno));
  // The reason of the earlier failure is lost; another write shows it.
  std::clearerr(stdout);
  const bool fails_still = std::fputc('\n', stdout) == EOF || std::fflush(stdout) != 0;
  throw runtime::io_error(
      "cannot write standard output: {}",
      fails_still ? runtime::system_message(errno) : "a part of it was lost; run it again");
}

}  // namespace

void add_commands(command_line& program) {
  add_tokenizer(program);
  add_preprocess(program);
  add_conversations(program);
  add_merge_datasets(program);
  add_train(program);
  add_status(program);
  add_monitor(program);
  add_ctl(program);
  add_ledger(program);
  add_wait(program);
  add_stop(program);
  add_plot(program);
  add_checkpoint(program);
  add_eval(program);
  add_generate(program);
  add_embed(program);
  add_serve(program);
  add_layout(program);
  add_schedule(program);
  add_simulate(program);
  add_chaos(program);
  add_memory(program);
  add_forecast(program);
  add_doctor(program);
  add_completion(program);
  add_manual(program);
  add_supervisor(program);
  add_node(program);
  add_credentials(program);
}

std::vector<std::pair<int, std::string>> exit_codes() {
  return {{0, "Done, or ended early in an orderly way."},
          {1,
           "`troupe checkpoint diff` found differences, `troupe simulate` a failing seed, or "
           "`troupe chaos` a failed check."},
          {2, "The input is wrong or the system refused; the message says what to do."},
          {3, "Internal error; please report it."}};
}

namespace {

/// Expands `troupe help train gpt` to `troupe train gpt --help`, and -V to --version.
std::vector<std::string> spelled_out(std::vector<std::string> words) {
  if (words == std::vector<std::string>{"-V"})
    return {"--version"};
  if (words.empty() || words.front() != "help")
    return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

}  // namespace

int run_program(const std::vector<std::string>& words) {
  try {
    runtime::set_log_words(with_flags);
    if (actors::is_part(words))
      return actors::play_part(words);
    command_line program(
        "troupe", "trains large transformer models as a system of actors, and generates text.");
    program.toggle("--version",
                   "Prints version, commit, compiler, its options and the instruction set, and "
                   "exits. Short: -V.",
                   [] {});
    program.runs([] {
      print_page(runtime::version_text() + "\n");
      return 0;
    });
    program.note("`troupe COMMAND --help` or `troupe help COMMAND` explains a command.");
    program.note(
        "First steps: `troupe doctor` checks this machine. `troupe tokenizer train`, `troupe "
        "preprocess` and `troupe train gpt` make a model from text; `troupe generate` makes text "
        "from a model.");
    program.note(
        "Exit codes: 0 done; 1 `troupe checkpoint diff` found differences, `troupe simulate` a "
        "failing seed, or `troupe chaos` a failed check; 2 the input is wrong or the "
        "system refused; 3 internal error.");
    add_commands(program);
    return flushed(program.parse(spelled_out(words))());
  } catch (const usage_error& failure) {
    print_error(failure.what());
    if (!failure.command.empty())
      std::fprintf(stderr, "  (%s --help)\n", failure.command.c_str());
    return users_fault;
  } catch (const std::bad_alloc&) {
    print_error("out of memory; use a smaller model, micro-batch or vocabulary");
    return users_fault;
  } catch (const std::exception& failure) {
    if (actors::exit_code_of(failure) == our_fault)
      return report_internal_error(failure.what());
    print_error(failure.what());
    return users_fault;
  } catch (...) {
    return report_internal_error("an object was thrown that is not an exception");
  }
}

}  // namespace troupe::command

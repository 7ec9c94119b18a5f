// The sub-commands: each function adds one command, with its flags and work, to the program.

#pragma once

#include "actors/command/command_line.hpp"

#include <string>
#include <utility>
#include <vector>

namespace troupe::command {

void add_train(command_line& program);           // train.cpp
void add_tokenizer(command_line& program);       // tokenizer.cpp
void add_preprocess(command_line& program);      // preprocess.cpp
void add_conversations(command_line& program);   // conversations.cpp
void add_merge_datasets(command_line& program);  // merge_datasets.cpp
void add_generate(command_line& program);        // generate.cpp
void add_eval(command_line& program);            // eval.cpp
void add_embed(command_line& program);           // embed.cpp
void add_serve(command_line& program);           // serve.cpp
void add_plot(command_line& program);            // plot.cpp
void add_layout(command_line& program);          // layout.cpp
void add_schedule(command_line& program);        // schedule.cpp
void add_checkpoint(command_line& program);      // checkpoint.cpp
void add_completion(command_line& program);      // completion.cpp
void add_simulate(command_line& program);        // simulate.cpp
void add_chaos(command_line& program);           // chaos.cpp
void add_memory(command_line& program);          // memory.cpp
void add_forecast(command_line& program);        // forecast.cpp
void add_doctor(command_line& program);          // doctor.cpp
void add_manual(command_line& program);          // manual.cpp
void add_status(command_line& program);          // status.cpp
void add_monitor(command_line& program);         // monitor.cpp
void add_ctl(command_line& program);             // ctl.cpp
void add_ledger(command_line& program);          // ledger.cpp
void add_wait(command_line& program);            // wait.cpp
void add_stop(command_line& program);            // wait.cpp
void add_credentials(command_line& program);     // credentials.cpp
void add_supervisor(command_line& program);      // supervisor.cpp
void add_node(command_line& program);            // node.cpp

/// Adds all commands, in the order of the help.
void add_commands(command_line& program);

/// The exit codes with their meanings.
std::vector<std::pair<int, std::string>> exit_codes();

/// The body of main: parses the words and runs the command. Turns exceptions into a message on
/// standard error and an exit code.
int run_program(const std::vector<std::string>& words);

}  // namespace troupe::command

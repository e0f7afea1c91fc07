// Adds each subcommand to the program; a subcommand runs while the arguments are parsed. In the planner build the
// functions of cli/training/ add none (cli/no_training.cpp).
#pragma once

namespace CLI {
class App;
}

namespace terrace::cli {

void add_train_command(CLI::App& app);
void add_evaluate_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_forecast_command(CLI::App& app);
void add_score_command(CLI::App& app);
void add_predict_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_import_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_verify_command(CLI::App& app);
void add_rehearse_command(CLI::App& app);
void add_calibrate_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_simulate_command(CLI::App& app);
void add_search_command(CLI::App& app);
void add_explain_command(CLI::App& app);
void add_ensemble_command(CLI::App& app);
void add_launch_command(CLI::App& app);
void add_status_command(CLI::App& app);
void add_keep_node_command(CLI::App& app);
void add_completion_command(CLI::App& app);
void add_man_command(CLI::App& app);

}  // namespace terrace::cli

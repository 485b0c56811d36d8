//! Checks that no process, mount or file of a load is left, however the tool and its supervisor
//! end.

use crate::tool;

use tool::Tool;

fn requests() -> Vec<String> {
    tardy_loads::load::LOADS
        .iter()
        .filter_map(|info| tool::request_for_test(info))
        .collect()
}

#[test]
fn nothing_is_left_of_any_load_after_the_tool_is_killed() {
    for request in requests() {
        let Some(mut tool) = Tool::start(&request) else {
            continue;
        };
        tool.kill_tool();
        tool.assert_nothing_is_left(&request);
    }
}

#[test]
fn no_process_and_mount_is_left_of_any_load_after_tool_and_guardian_are_killed_together() {
    for request in requests() {
        let Some(mut tool) = Tool::start(&request) else {
            continue;
        };
        tool.kill_guardian();
        tool.kill_tool();
        tool.assert_no_process_and_mount_is_left(&request);
        tool.restore();
        tool.assert_nothing_is_left(&request);
    }
}

#[test]
fn nothing_is_left_of_any_load_that_ends_in_order() {
    for request in requests() {
        let Some(mut tool) = Tool::start(&request) else {
            continue;
        };
        tool.interrupt();
        let ends = tool.ends();
        assert!(
            ends.iter()
                .all(|end| *end == tardy_loads::guardian::LoadEnd::Finished)
                && !ends.is_empty(),
            "{request}: {ends:?}"
        );
        tool.assert_nothing_is_left(&request);
    }
}

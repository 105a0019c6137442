"""What a program is made of and where its time goes, as a report and as a page. Serves nothing."""
